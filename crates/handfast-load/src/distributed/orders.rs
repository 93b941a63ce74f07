//! Orders to all workers that take part, and their answers.
//!
//! In: a coordinator's end of the bus. Out: success if all accepted, otherwise the first worker that did not, and why.

use super::link::{Clock, Link};
use super::protocol::{Order, Reply};
use handfast_bus::Fault;
use handfast_report::ToolError;

/// One worker of a run.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) clock: Clock,
}

/// Orders to all workers at once.
pub(super) struct Orders<'a> {
    pub(super) link: &'a Link,
}

impl Orders<'_> {
    /// Sends each worker its order, and waits until all have accepted.
    ///
    /// **Errors**: the first that did not.
    pub(super) async fn all(
        &self,
        members: &[Member],
        order: impl Fn(u32, &Member) -> Order,
    ) -> Result<(), ToolError> {
        let numbered = (0u32..).zip(members);
        let questions = numbered.map(|(index, member)| (member.id.clone(), order(index, member))).collect();
        for (answer, member) in self.link.send_requests(questions).await.into_iter().zip(members) {
            refused(answer.map_err(|fault| self.fault(member, &fault))?, &member.name)?;
        }
        Ok(())
    }

    /// Measures every clock.
    pub(super) async fn clocks(&self, members: &mut [Member]) -> Result<(), ToolError> {
        let ids = members.iter().map(|member| member.id.clone()).collect();
        for (clock, member) in self.link.clocks(ids).await.into_iter().zip(members) {
            member.clock = clock.map_err(|fault| self.fault(member, &fault))?;
        }
        Ok(())
    }

    fn fault(&self, member: &Member, fault: &Fault) -> ToolError {
        let what = format!("order worker {} on {}: {fault}", member.name, self.link.bus.place());
        match fault {
            Fault::TooLarge { .. } => ToolError::failed(what).hint("raise `max_payload` on the server"),
            _ => ToolError::failed(what).hint("check whether it still runs, and its log"),
        }
    }
}

/// A worker's refusal, in its words; with its name if there are several workers.
fn refused(answer: Reply, name: &str) -> Result<(), ToolError> {
    match answer {
        Reply::Yes => Ok(()),
        Reply::No(refusal) => Err(refusal),
        Reply::Clock(_) => Err(ToolError::failed(format!("worker {name}: the answer cannot be understood"))),
    }
}
