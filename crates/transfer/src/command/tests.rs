use super::*;

#[test]
fn the_command_line_is_sound() {
    command().debug_assert();
}

fn words_of(line: &str) -> String {
    let words = [NAME].into_iter().chain(line.split_whitespace());
    match command()
        .try_get_matches_from(words)
        .and_then(|found| Cli::from_arg_matches(&found))
    {
        Err(error) => wrong(&error, "COMMAND"),
        Ok(Cli {
            verb: Some(Verb::Send(send)),
        }) => match send.split() {
            Err(error) => screen::explained(&error),
            Ok(_) => panic!("it is accepted: {line}"),
        },
        Ok(_) => panic!("it is accepted: {line}"),
    }
}

#[test]
fn what_is_wrong_is_said_in_one_line_that_names_it() {
    for (line, said) in [
        (
            "send a h:1 --links magic",
            "invalid value for '--links': 'magic' is not one of 'keep', 'follow', 'skip': see COMMAND --help",
        ),
        ("send", "missing argument 'FILE...': see COMMAND --help"),
        ("send h:1", "missing argument"),
        ("receive", "missing option '--into'"),
        ("send --nope a h:1", "no such option: --nope: see"),
        (
            "send --meth auto a h:1",
            "no such option: --meth (Possible options: --method)",
        ),
        ("send -x a h:1", "no such option: -x"),
        (
            "send a h:1 --stall",
            "option '--stall' requires an argument",
        ),
        ("receive --into . x", "got unexpected extra argument (x)"),
        (
            "receive --into . --once=3",
            "option '--once' does not take a value",
        ),
        ("frob", "no such command 'frob'"),
        (
            "send a h:1 --stall 5x",
            "--stall: '5x' has an unknown unit 'x': use ns, us, ms, s, m, h or d",
        ),
        (
            "send a h:1 --stall -5s",
            "--stall: '-5s' is less than no time",
        ),
        ("send a h:1 --stall 0", "--stall 0 leaves no time"),
        (
            "send a b",
            "the last argument: 'b' is not ADDR:PORT: write it like 127.0.0.1:7025",
        ),
        (
            "receive --into . --listen 7025",
            "--listen: '7025' is not ADDR:PORT",
        ),
        ("send --json=", "--json: the name is empty: name a file"),
        (
            "send --json /nonexistent/file",
            "--json /nonexistent/file: the folder /nonexistent does not exist",
        ),
    ] {
        let found = words_of(line);
        assert!(found.starts_with(said), "{line}: {found}");
    }
}

#[test]
fn the_last_of_several_values_counts_and_a_dash_may_begin_one() {
    let words = "send --method mmap a --method auto --skip -x b --skip y h:1";
    let matches = command()
        .try_get_matches_from([NAME].into_iter().chain(words.split(' ')))
        .expect("a command line");
    let Ok(Cli {
        verb: Some(Verb::Send(send)),
    }) = Cli::from_arg_matches(&matches)
    else {
        panic!("it is to send");
    };
    assert_eq!(send.arguments.method, crate::SendMethod::Auto);
    assert_eq!(send.arguments.skip, ["-x", "y"]);
    let (files, address) = send.split().expect("files and an address");
    assert_eq!(files, [PathBuf::from("a"), PathBuf::from("b")]);
    assert_eq!(address, "h:1");
}
