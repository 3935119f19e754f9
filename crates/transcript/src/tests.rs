//! The text that is left of streams, against what a person would have seen.

use proptest::prelude::*;

use super::*;

fn size_frame(kind: u8, columns: u16, rows: u16) -> Vec<u8> {
    let mut frame = vec![kind, 4, 0, 0, 0];
    frame.extend(columns.to_le_bytes());
    frame.extend(rows.to_le_bytes());
    frame
}

fn output(bytes: &[u8]) -> Vec<u8> {
    let mut frame = vec![b'o'];
    frame.extend(u32::try_from(bytes.len()).unwrap().to_le_bytes());
    frame.extend(bytes);
    frame
}

fn text_of(frames: &[Vec<u8>]) -> String {
    let mut written = Vec::new();
    let text = Text::new(&mut written, Marks::Lines);
    interpret(&mut frames.concat().as_slice(), text).unwrap();
    String::from_utf8(written).unwrap()
}

/// What is left of `bytes` in a terminal of 10 columns and 3 rows, which must not depend on where they are cut.
fn seen(bytes: &[u8]) -> String {
    let whole = text_of(&[size_frame(b'n', 10, 3), output(bytes)]);
    let mut pieces = vec![size_frame(b'n', 10, 3)];
    pieces.extend(bytes.iter().map(|&byte| output(&[byte])));
    assert_eq!(text_of(&pieces), whole);
    whole
}

#[test]
fn wrapped_rows_are_one_line_and_blank_ends_are_gone() {
    assert_eq!(
        seen(b"a long line that wraps  \r\n\r\nend \r\n\r\n"),
        "a long line that wraps\n\nend\n"
    );
}

#[test]
fn only_the_last_state_of_a_progress_bar_is_left() {
    assert_eq!(seen(b"10 %\r20 %\rdone\x1b[K\r\nnext"), "done\nnext\n");
}

#[test]
fn backspaces_titles_and_colours_leave_no_trace() {
    assert_eq!(
        seen(b"\x1b]0;title\x07\x1b[1;31mlx\x08 \x08s\x1b[0m\r\n"),
        "ls\n"
    );
}

#[test]
fn wide_and_combining_characters_stay_whole() {
    assert_eq!(
        seen("日本語日本語e\u{301}\r\n".as_bytes()),
        "日本語日本語e\u{301}\n"
    );
}

#[test]
fn half_a_wide_character_is_blank() {
    for half in [
        "\x1b[1G\x1b[1K",
        "\x1b[1G\x1b[X",
        "\x1b[2G\x1b[X",
        "\x1b[2G \x1b[1G",
    ] {
        assert_eq!(
            seen(format!("日本{half}\r\n").as_bytes()),
            "  本\n",
            "{half:?}"
        );
    }
}

#[test]
fn bytes_that_are_no_character_are_shown_as_such() {
    assert_eq!(seen(b"a\xffb\xe6\x97"), "a\u{fffd}b\n");
}

#[test]
fn line_drawing_characters_are_lines() {
    assert_eq!(seen(b"\x1b(0lqk\x1b(B x"), "┌─┐ x\n");
}

#[test]
fn what_was_cleared_was_seen() {
    for clear in [
        "\x1b[H\x1b[2J",
        "\x1b[H\x1b[J",
        "\x1b[H\x1b[2J\x1b[3J",
        "\x1bc",
    ] {
        assert_eq!(
            seen(format!("one\r\ntwo{clear}three").as_bytes()),
            "one\ntwo\nthree\n",
            "{clear:?}"
        );
    }
}

#[test]
fn what_comes_after_clearing_is_another_line() {
    assert_eq!(
        seen(b"0123456789ab\r\x1b[K\x1b[H\x1b[2Jnext"),
        "0123456789\nnext\n"
    );
}

#[test]
fn clearing_an_empty_screen_leaves_nothing() {
    assert_eq!(
        seen(b"\x1b[H\x1b[2J\x1b[2Jone\x1b[H\x1b[2J\x1b[2Jtwo"),
        "one\ntwo\n"
    );
}

#[test]
fn a_full_screen_program_leaves_its_last_screen_where_it_ran() {
    for (enter, leave) in [("\x1b[?1049h", "\x1b[?1049l"), ("\x1b[?47h", "\x1b[?47l")] {
        for last in ["", "\x1b[H\x1b[2J", "\x1b[H\x1b[J"] {
            let stream =
                format!("$ less\r\n{enter}\x1b[Hfirst\x1b[H\x1b[2Jlast{last}{leave}$ exit\r\n");
            assert_eq!(
                seen(stream.as_bytes()),
                "$ less\n[full-screen program: its last screen]\nlast\n[end]\n$ exit\n",
                "{stream:?}"
            );
        }
    }
}

#[test]
fn a_recording_may_end_within_a_full_screen_program() {
    assert_eq!(
        seen(b"$ vim\r\n\x1b[?1049h\x1b[Hfile"),
        "$ vim\n[full-screen program: its last screen]\nfile\n[end]\n"
    );
}

#[test]
fn without_marks_the_last_screen_stands_alone() {
    let mut written = Vec::new();
    let frames = output(b"$ vim\r\n\x1b[?1049h\x1b[Hfile\x1b[?1049l$ ");
    interpret(&mut frames.as_slice(), Text::new(&mut written, Marks::None)).unwrap();
    assert_eq!(written, b"$ vim\nfile\n$\n");
}

#[test]
fn lines_that_scroll_away_are_written_once_and_in_order() {
    let lines: String = (0..5000).map(|line| format!("line {line}\r\n")).collect();
    assert_eq!(seen(lines.as_bytes()), lines.replace('\r', ""));
}

#[test]
fn what_scrolls_below_a_heading_is_kept() {
    // The second and third row scroll: by line feeds, by characters at the end of the last row, by a scroll.
    assert_eq!(
        seen(b"head\r\n\x1b[2;3r\x1b[2;1Hone\r\ntwo\r\nthree\r\na wrapped line\x1b[S"),
        "one\ntwo\nthree\na wrapped\nhead\nline\n"
    );
}

#[test]
fn many_full_screen_programs_within_a_line_are_bounded() {
    let program = "\x1b[?1049h\x1b[Hvim\x1b[?1049l";
    let stream = format!("{}{}", "x".repeat(35), program.repeat(100));
    let text = seen(stream.as_bytes());
    assert_eq!(text.matches("\nvim\n").count(), 100);
    assert_eq!(text.matches('x').count(), 35);
}

#[test]
fn a_window_that_changes_its_size_loses_no_line() {
    let frames = [
        size_frame(b'n', 10, 3),
        output(b"one two three\r\n\x1b[?1049h\x1b[Hvim"),
        size_frame(b'r', 4, 2),
        output(b"\x1b[?1049l"),
        size_frame(b'r', 40, 5),
        output(b"four"),
    ];
    assert_eq!(
        text_of(&frames),
        "one two three\n[full-screen program: its last screen]\nvim\n[end]\nfour\n"
    );
}

#[test]
fn a_new_terminal_begins_on_a_new_line() {
    let frames = [
        output(b"one\x1b[31m\x1b["),
        size_frame(b'n', 20, 5),
        output(b"two"),
    ];
    assert_eq!(text_of(&frames), "one\ntwo\n");
}

#[test]
fn a_title_without_an_end_is_cut_off() {
    let mut frames = vec![output(b"before\r\n\x1b]0;")];
    frames.extend((0..=16).map(|_| output(&vec![b'x'; LONGEST])));
    frames.push(output(b"\r\nafter"));
    let text = text_of(&frames);
    assert!(text.starts_with("before\n") && text.ends_with("\nafter\n"));
}

#[test]
fn a_heap_of_combining_characters_is_bounded() {
    let text = text_of(&[
        output("a".as_bytes()),
        output("\u{301}".repeat(100_000).as_bytes()),
    ]);
    assert!(text.chars().count() < 100, "{}", text.len());
}

#[test]
fn frames_that_make_no_sense_are_reported() {
    for (frames, expected) in [
        (b"x\0\0\0\0".to_vec(), "kind"),
        (b"o\xff\xff\xff\xff".to_vec(), "longer"),
        (b"n\x02\0\0\0ab".to_vec(), "4 bytes"),
        (size_frame(b'n', 0, 24), "not within"),
        (size_frame(b'r', 80, 1001), "not within"),
        (b"o\x05\0\0\0abc".to_vec(), "standard input"),
    ] {
        let text = Text::new(Vec::new(), Marks::Lines);
        let error = interpret(&mut frames.as_slice(), text).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        seen(&bytes);
    }

    /// Sequences that move, erase, scroll and wrap in any order.
    #[test]
    fn any_sequences_are_survived(
        parts in prop::collection::vec(
            prop_oneof![
                "[a-z日e\u{301}\r\n\t]{1,12}",
                "\u{1b}\\[[0-9]{0,2}(;[0-9]{1,2})?[@A-HJ-MPSTXZbdr]",
                "\u{1b}[78DEMc]",
                "\u{1b}\\[\\?(7|47|1048|1049|3|6|2026)[hl]",
            ],
            0..60,
        ),
    ) {
        seen(parts.concat().as_bytes());
    }
}
