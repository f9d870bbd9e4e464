//! Answers claims outside their template's window, where no gate is loaded.

use coupon::{Claim, Template, TemplateState};
use mysql_store::{connect, template};
use redis_gate::Refusal;

use super::{
    Answer, Unavailable,
    walk::{Stop, Walk},
};

/// A claim's position relative to its template's window.
pub(super) enum Window {
    /// Answered without the gate.
    Answered(Answer),
    /// The gate decides.
    Inside,
    /// The gate decides. The window was moved; this is MySQL's current template.
    Moved(Box<Template>),
}

impl Walk {
    /// Handles the times when no gate is loaded: long before the window nothing can have landed, but after it the key
    /// may have.
    pub(super) async fn window(&self, template: &Template, claim: &Claim) -> Result<Window, Stop> {
        // An ended template has no gate any more, and the end is final.
        if template.state == TemplateState::Ended {
            return self.refused(claim, Refusal::Ended, true).await.map(Window::Answered);
        }
        let (now, window) = ((self.clock)(), template.window);
        if now + self.gates.preload() < window.starts_at {
            let starts_at = window.starts_at;
            return Ok(Window::Answered(Answer::Refused(Refusal::NotOpen { starts_at })));
        }
        if now >= window.ends_at { self.closed(claim).await } else { Ok(Window::Inside) }
    }

    /// The window is over according to this process or the gate. Its end may have moved since, so only MySQL refuses.
    async fn closed(&self, claim: &Claim) -> Result<Window, Stop> {
        if let Some(stored) = self.stored_answer(claim).await? {
            return Ok(Window::Answered(stored));
        }
        let current = connect::within(async {
            let mut connection = connect::acquire(&self.pool).await?;
            template::get(&mut connection, claim.template_id).await
        });
        let refused = |refusal| Ok(Window::Answered(Answer::Refused(refusal)));
        match current.await? {
            Some(current) if current.state == TemplateState::Ended => refused(Refusal::Ended),
            Some(current) if (self.clock)() < current.window.ends_at => {
                Ok(Window::Moved(Box::new(current)))
            }
            _ => refused(Refusal::Closed),
        }
    }

    /// If MySQL has moved the window, the gate that calls it over is behind.
    pub(super) async fn closed_by_gate(&self, claim: &Claim) -> Result<Answer, Stop> {
        match Box::pin(self.closed(claim)).await? {
            Window::Answered(answer) => Ok(answer),
            Window::Inside | Window::Moved(_) => {
                self.gates.ask_look(claim.template_id);
                Ok(Answer::Unavailable(Unavailable::GateLoading))
            }
        }
    }
}
