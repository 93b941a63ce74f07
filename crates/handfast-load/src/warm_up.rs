//! Before the run: whether one transaction of each kind works at all, and tickets for handshakes that are to be resumed.
//!
//! In: an address, a thread's assignment. Out: the result; tickets in the clients' pools.

use std::rc::Rc;

use handfast_net::clock::Moment;

use crate::assignment::Assignment;
use crate::context::{Caller, ThreadContext};
use crate::failure::StepFailure;
use crate::work;

/// One transaction of each member of the mix, and with each request, as far as there is time for it; at least one.
pub(crate) async fn rehearse(context: &Rc<ThreadContext>) -> Result<(), StepFailure> {
    let until = context.deadline();
    let members = context.clients.len();
    let requests = if context.plan.is_in_order() { 1 } else { context.requests.len() };
    for number in 0..members.max(requests) {
        if number > 0 && Moment::now() >= until {
            break;
        }
        rehearse_as(context, number % members, number % context.requests.len().max(1)).await?;
    }
    Ok(())
}

async fn rehearse_as(context: &Rc<ThreadContext>, member: usize, request: usize) -> Result<(), StepFailure> {
    let caller = Caller { member, resume: false };
    let outcome = work::rehearse(context, caller, request).await;
    outcome.map_err(|failure| match context.plan.mix.get(member) {
        Some(member) => {
            StepFailure { detail: format!("as `{}`: {}", member.name, failure.detail), ..failure }
        }
        None => failure,
    })
}

/// A ticket for each handshake that may be resuming at once, and a few more. In an open model that is what a quarter of
/// a second brings: by then the first ones have given new tickets. `part` is the member's share of all connections.
fn required_tickets(assignment: &Assignment, part: f64, share: f64) -> usize {
    const MAX_TICKETS: f64 = 1024.0;
    const AHEAD: f64 = 0.25;
    let connections = f64::from(assignment.connections());
    if share == 0.0 || connections == 0.0 {
        return 0;
    }
    let parts = assignment.part().map_or(1.0, |(_, parts)| parts as f64);
    let rates = assignment.plan.rates();
    let at_once = rates.map_or(connections, |rates| connections.min(rates.peak() / parts * AHEAD));
    (at_once * part * share + 8.0).ceil().min(MAX_TICKETS) as usize
}

/// Fills the pool of each member that resumes; how many tickets were wanted in all.
pub(crate) async fn fill_pools(assignment: &Assignment, context: &Rc<ThreadContext>) -> usize {
    let all: f64 = assignment.plan.clients().map(|(share, _)| share).sum();
    let mut sum = 0;
    for (member, (share, tls)) in assignment.plan.clients().enumerate() {
        let required = required_tickets(assignment, share / all, tls.resume);
        sum += required;
        fill_pool(context, member, required).await;
    }
    sum
}

/// Full handshakes until there are enough tickets; a target that gives none is not asked forever.
async fn fill_pool(context: &Rc<ThreadContext>, member: usize, required: usize) {
    let client = &context.clients[member].client;
    let mut in_vain = 0;
    while client.tickets() < required && in_vain < 3 {
        let before = client.tickets();
        if rehearse_as(context, member, 0).await.is_err() || client.tickets() <= before {
            in_vain += 1;
        }
    }
}
