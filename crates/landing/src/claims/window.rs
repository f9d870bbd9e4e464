//! Answers claims outside their template's window, where no gate is loaded.

use chrono::{DateTime, Utc};
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
    /// Returns whether this process's copy of a template leaves its claims to the gate.
    pub(super) fn is_left_to_the_gate(&self, template: &Template, now: DateTime<Utc>) -> bool {
        template.state != TemplateState::Ended
            && now + self.gates.preload() >= template.window.starts_at
            && now < template.window.ends_at
    }

    /// Handles the times when no gate is loaded. Long before the window no claim can have landed. After the window a
    /// claim with this key may have landed, or may still land until the template's queue is closed. Until then only the
    /// gate refuses.
    pub(super) async fn window(&self, template: &Template, claim: &Claim) -> Result<Window, Stop> {
        let now = (self.clock)();
        if self.is_left_to_the_gate(template, now) {
            return Ok(Window::Inside);
        }
        // An ended template has no gate any more once its queue is closed, and the end is final.
        if template.state == TemplateState::Ended {
            return self.over(template, claim, Refusal::Ended).await;
        }
        if now < template.window.ends_at {
            let starts_at = template.window.starts_at;
            return Ok(Window::Answered(Answer::Refused(Refusal::NotOpen { starts_at })));
        }
        self.closed(claim).await
    }

    /// The window is over according to this process. Its end may have moved since, so only MySQL refuses.
    async fn closed(&self, claim: &Claim) -> Result<Window, Stop> {
        // Read first: a queue that was closed before the key is looked up is still closed after it.
        let closed_at = self.gates.queue_closed_at(claim.template_id);
        if let Some(stored) = self.stored_answer(claim).await? {
            return Ok(Window::Answered(stored));
        }
        let Some(current) = self.current(claim).await? else {
            return Ok(Window::Answered(Answer::Refused(Refusal::Closed)));
        };
        match self.is_over(&current) {
            None => Ok(Window::Moved(Box::new(current))),
            Some(refusal) if closed_at == Some(current.version) => {
                Ok(Window::Answered(Answer::Refused(refusal)))
            }
            Some(refusal) => self.over(&current, claim, refusal).await,
        }
    }

    /// Refuses a claim of a template that is over for good, once no claim of its queue can land any more.
    async fn over(
        &self,
        template: &Template,
        claim: &Claim,
        refusal: Refusal,
    ) -> Result<Window, Stop> {
        // Read before the key is looked up: once the queue is closed, nothing lands under the key.
        let closed = self.gates.is_queue_closed(template).await?;
        let stored = self.stored_answer(claim).await?;
        Ok(match stored {
            Some(stored) => Window::Answered(stored),
            None if closed => Window::Answered(Answer::Refused(refusal)),
            None => Window::Inside,
        })
    }

    /// The gate says that the window is over. If MySQL has a later window, the gate is behind. The gate holds every key
    /// that may still land, and it does not hold this one.
    pub(super) async fn closed_by_gate(&self, claim: &Claim) -> Result<Answer, Stop> {
        if let Some(stored) = self.stored_answer(claim).await? {
            return Ok(stored);
        }
        let current = self.current(claim).await?;
        let over = current.as_ref().map_or(Some(Refusal::Closed), |current| self.is_over(current));
        Ok(over.map_or_else(
            || {
                self.gates.ask_look(claim.template_id);
                Answer::Unavailable(Unavailable::GateLoading)
            },
            Answer::Refused,
        ))
    }

    pub(super) async fn current(&self, claim: &Claim) -> Result<Option<Template>, Stop> {
        let current = connect::within(async {
            let mut connection = connect::acquire(&self.pool).await?;
            template::get(&mut connection, claim.template_id).await
        });
        Ok(current.await?)
    }

    /// Returns why a template gives out no coupons any more; `None` if it still does.
    fn is_over(&self, current: &Template) -> Option<Refusal> {
        if current.state == TemplateState::Ended {
            Some(Refusal::Ended)
        } else if (self.clock)() < current.window.ends_at {
            None
        } else {
            Some(Refusal::Closed)
        }
    }
}
