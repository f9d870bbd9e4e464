//! The gates that there are, and whether they can be read. A damaged gate is reported, and the others are looked at.

use chrono::{DateTime, Utc};
use coupon::{Epoch, TemplateId, TemplateState};
use mysql_store::{
    connect,
    verify::{self, Balance, Terms},
};
use redis_gate::{GateError, Meta};

use crate::{
    Sources, VerifyError,
    outcome::{Findings, count},
};

/// What a gate answered; `None` if its keys are at fault, which is then a violation.
pub(crate) fn readable<T>(
    template: TemplateId,
    answer: Result<T, impl Into<VerifyError>>,
    findings: &mut Findings,
) -> Result<Option<T>, VerifyError> {
    match answer.map_err(Into::into) {
        Ok(answer) => Ok(Some(answer)),
        Err(
            error @ VerifyError::Gate(GateError::Refused { .. } | GateError::Unreadable { .. }),
        ) if error.is_of_data() => {
            let why = runtime::report(&error);
            findings.add(format!("template {template}: a key of its gate is damaged: {why}"));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The gates of all templates.
#[derive(Default)]
pub(crate) struct Gates {
    /// Those that answer claims, each with its template's balance.
    pub(crate) open: Vec<(Balance, Meta)>,
    /// Every template with MySQL's epoch.
    pub(crate) epochs: Vec<(TemplateId, Epoch)>,
    closed: usize,
}

impl Gates {
    /// Reads what each gate knows of its template. Reports gates that cannot be read, and those of an epoch that MySQL
    /// does not know.
    pub(crate) async fn read(
        sources: &Sources,
        findings: &mut Findings,
    ) -> Result<Self, VerifyError> {
        let mut connection = connect::acquire(&sources.pool).await?;
        let mut gates = Self::default();
        for balance in findings.read(verify::balances(&mut connection).await)? {
            let template = balance.template;
            let epoch = balance.epoch;
            gates.epochs.push((template, epoch));
            let meta = sources.gate.meta(template).await;
            let Some(meta) = readable(template, meta, findings)? else { continue };
            for odd in meta.iter().flat_map(|meta| &meta.odd) {
                findings.add(format!("template {template}: the gate's {odd}"));
            }
            match meta.filter(Meta::is_open) {
                Some(meta) if meta.epoch == epoch => gates.open.push((balance, meta)),
                Some(meta) if meta.epoch > epoch => {
                    let gate = meta.epoch;
                    findings.add(format!("template {template}: epoch {gate}, MySQL knows {epoch}"));
                }
                Some(_) | None => gates.closed += 1,
            }
        }
        Ok(gates)
    }

    pub(crate) fn counted(&self) -> String {
        format!("{} open, {} not loaded", count(self.open.len(), "gate"), self.closed)
    }
}

/// Reports templates that may be claimed now but have no open gate.
pub(crate) async fn are_loaded(
    sources: &Sources,
    now: DateTime<Utc>,
    findings: &mut Findings,
) -> Result<(), VerifyError> {
    // A gate that cannot be read is reported where its template is compared.
    let mut unreadable = Findings::of("I7", "gates can be read");
    missing(&kept(sources, &mut unreadable).await?, now).for_each(|missing| findings.add(missing));
    Ok(())
}

/// Describes a gate that a keeper has not finished: it is not loaded, cannot be read, or lacks its template's last
/// change or movement, which a keeper brings within a second.
pub(crate) async fn unfinished(
    sources: &Sources,
    now: DateTime<Utc>,
) -> Result<Option<String>, VerifyError> {
    let mut unreadable = Findings::of("I7", "gates can be read");
    let kept = kept(sources, &mut unreadable).await?;
    Ok(unreadable.first().or_else(|| missing(&kept, now).next()).or_else(|| behind(&kept)))
}

/// Returns every template that can be read, with parts of its stock row.
pub(crate) async fn terms(sources: &Sources) -> Result<Vec<Terms>, VerifyError> {
    let mut connection = connect::acquire(&sources.pool).await?;
    Ok(verify::terms(&mut connection).await?.rows)
}

/// A template whose gate a keeper maintains, and that gate if it is open.
type Kept = (Terms, Option<Meta>);

async fn kept(sources: &Sources, findings: &mut Findings) -> Result<Vec<Kept>, VerifyError> {
    let mut kept = Vec::new();
    for terms in terms(sources).await? {
        let id = terms.template.id;
        let state = terms.template.state;
        if matches!(state, TemplateState::Published | TemplateState::Paused) {
            let meta = sources.gate.meta(id).await;
            let meta = readable(id, meta, findings)?.flatten().filter(Meta::is_open);
            kept.push((terms, meta));
        }
    }
    Ok(kept)
}

fn missing(kept: &[Kept], now: DateTime<Utc>) -> impl Iterator<Item = String> {
    let is_missing = move |(terms, meta): &&Kept| {
        let window = terms.template.window;
        meta.is_none() && window.starts_at <= now && now < window.ends_at
    };
    let described = |(terms, _): &Kept| {
        format!("template {} can be claimed, and nobody loads its gate", terms.template.id)
    };
    kept.iter().filter(is_missing).map(described)
}

fn behind(kept: &[Kept]) -> Option<String> {
    let is_behind = |(terms, meta): &&Kept| {
        meta.as_ref().is_some_and(|meta| {
            meta.version < terms.template.version || meta.movement < terms.movement
        })
    };
    let (terms, _) = kept.iter().find(is_behind)?;
    let id = terms.template.id;
    let version = terms.template.version;
    let movement = terms.movement;
    Some(format!(
        "the gate of template {id} has not heard of version {version} or movement {movement}"
    ))
}
