//! Mailboxes: every letter arrives, once and in sequence, or its sender is notified.

use super::*;

#[test]
fn messages_from_another_thread_wake_the_task() {
    on_engine(|| async {
        let (sender, letterbox) = mailbox(1000).expect("an eventfd");
        let send = move |number| sender.send(number).expect("there is room for all");
        let thread = thread(move || (0..1000).for_each(send));
        let mut mailbox = letterbox.open();
        let mut got: Vec<i32> = Vec::new();
        while got.len() < 1000 {
            got.extend(mailbox.receive().await.expect("registered"));
        }
        assert_eq!(got, (0..1000).collect::<Vec<_>>());
        thread.join().expect("the sending thread");
    });
}

#[test]
fn a_full_mailbox_gives_the_letter_back_and_has_room_again_when_it_was_read() {
    on_engine(|| async {
        let (sender, letterbox) = mailbox(3).expect("an eventfd");
        let mut mailbox = letterbox.open();
        for round in 0..3 {
            let first = round * 10;
            (first..first + 3).for_each(|number| sender.send(number).expect("there is room for three"));
            assert_eq!(sender.send(first + 3), Err(Full(first + 3)));
            assert_eq!(mailbox.receive().await.expect("registered"), [first, first + 1, first + 2]);
        }
    });
}

#[test]
fn a_letter_takes_the_place_of_those_that_it_makes_pointless() {
    on_engine(|| async {
        let (sender, letterbox) = mailbox(3).expect("an eventfd");
        let mut mailbox = letterbox.open();
        [1, 20, 2].into_iter().for_each(|letter| sender.send(letter).expect("there is room for three"));
        let big = |letter: &i32| *letter >= 10;
        for news in [30, 40] {
            assert_eq!(sender.send_instead(news, big), Ok(()), "it brings its own room");
        }
        assert_eq!(sender.send_instead(3, |letter| *letter == 7), Err(Full(3)), "no task made room");
        assert_eq!(mailbox.receive().await.expect("registered"), [1, 2, 40], "behind all others");
    });
}

/// The thread that is stuck is not waited for.
#[test]
fn sending_to_a_thread_that_never_looks_ends_with_a_word() {
    let (sender, letterbox) = mailbox(16).expect("an eventfd");
    let refused = (0..1000).filter(|number| sender.send(*number).is_err()).count();
    assert_eq!(refused, 1000 - 16);
    drop(letterbox);
}
