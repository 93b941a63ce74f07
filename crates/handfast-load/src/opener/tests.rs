//! Number of connections that are opened at once, and the pause after one that was shed.

use super::*;

/// Begins as many as it may.
fn begin(opener: &Rc<Opener>) -> Vec<Permit> {
    let may = || opener.is_short() && opener.has_room() && opener.not_before.get() <= Moment::now();
    std::iter::from_fn(|| may().then(|| opener.permit())).collect()
}

#[test]
fn pauses_double_up_to_a_second() {
    let millis: Vec<u128> = (1..=9).map(|failures| pause(failures).as_millis()).collect();
    assert_eq!(millis, [10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
    assert_eq!(pause(u32::MAX), MAX_PAUSE);
}

#[test]
fn as_many_are_opened_at_once_as_stand() {
    let opener = Opener::new(1000, true);
    let (mut standing, mut rounds) = (Vec::new(), Vec::new());
    while opener.is_short() {
        let mut permits = begin(&opener);
        rounds.push(permits.len());
        permits.iter_mut().for_each(Permit::set_open);
        standing.append(&mut permits);
    }
    assert_eq!(rounds[..8], [4, 4, 8, 16, 32, 64, 64, 64]);
    assert_eq!((opener.open_connections(), opener.opening()), (1000, 0));
    standing.truncate(10);
    assert_eq!(opener.open_connections(), 10);
    assert!(opener.is_short(), "what has ended is replaced");
}

#[test]
fn what_is_opened_once_is_not_replaced() {
    let opener = Opener::new(6, false);
    assert_eq!(begin(&opener).len(), 4);
    assert_eq!(begin(&opener).len(), 2);
    assert!(!opener.is_short());
}

#[test]
fn a_target_that_sheds_is_left_alone_for_a_while() {
    let opener = Opener::new(100, true);
    let permits = begin(&opener);
    assert_eq!(permits.len(), 4);
    // All four at once are one occasion.
    assert!(permits.iter().all(|permit| permit.ended(false)));
    drop(permits);
    assert!(begin(&opener).is_empty(), "not before the pause is over");
    let left = opener.not_before.get().since(Moment::now());
    assert!(left <= FIRST_PAUSE, "{left:?}");
    opener.not_before.set(Moment::now());
    let permit = begin(&opener).swap_remove(0);
    assert!(permit.ended(false));
    let left = opener.not_before.get().since(Moment::now());
    assert!(left > FIRST_PAUSE && left <= pause(5), "{left:?}");
}

#[test]
fn a_connection_that_carried_something_was_not_shed() {
    let opener = Opener::new(1, true);
    let mut permit = begin(&opener).swap_remove(0);
    permit.set_open();
    permit.proved();
    assert!(!permit.ended(false) && !opener.is_shed());
}
