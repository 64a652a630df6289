use std::ffi::OsString;

use getgpu_model::Failure;

use super::*;
use getgpu_model::Kind;

fn parse(words: &str) -> Result<GetgpuOptions, Failure> {
    super::parse(words.split_whitespace().map(OsString::from))
}

#[test]
fn what_was_typed() {
    use Action::{List, Print};
    // --hold takes its value after = only; the type decides what is counted.
    #[rustfmt::skip]
    let cases = [
        ("", Print(None)), ("3", Print(Some(3))), ("-l", List), ("-L", List), ("--list", List),
        ("--hold 3", Print(Some(3))), ("--type gpu 3", Print(Some(3))),
    ];
    for (words, action) in cases {
        assert_eq!(parse(words).unwrap().action, action, "{words}");
    }
    for (words, pid) in [("--hold", None), ("--hold=77", Some(77))] {
        assert_eq!(parse(words).unwrap().keep, Keep::Hold(pid));
    }
    let (time, wait) = (parse("--for 1.5m").unwrap(), parse("-w 30").unwrap());
    assert_eq!(time.reserve_for, Some(Duration::from_secs(90)));
    assert_eq!(wait.choices.first_of(&["wait"]), Some("--wait"));
    for words in ["--help", "--list --count-free -h", "-V --for abc"] {
        let action = parse(words).unwrap().action;
        assert!(matches!(action, Action::Text(_)), "{words}");
    }
}

#[test]
fn every_format_of_the_table_can_be_typed() {
    for format in ["table", "json", "csv", "prometheus"] {
        assert!(
            parse(&format!("--list --format {format}")).is_ok(),
            "{format}"
        );
    }
}

#[test]
fn what_is_wrong_is_one_line() {
    #[rustfmt::skip]
    let cases = [
        "-1", "x", "1.5", "0x1", "MIG-1", "1 --list", "1 --count-free", "1 --release-all",
        "3 4", "99999999999999999999", "--for abc", "--for -1", "--type migs",
        "--format json", "--json", "--nope", "-w", "-w abc", "-w -1", "--wait=abc", "--wait=",
        "--wait 30", "--wait=3 -w 4", "3 -w 30", "--share 0", "--share 3/2", "--share", "--count 0",
        "--count x", "--count -1", "-n 1.5", "--min-memory -1", "--min-memory big", "--profile=",
        "--gpu x", "--policy best", "--policy first 3", "--list --wait", "--release-all -n 2",
        "--count-free -w 3", "--list 3", "--hold=x", "--hold=-1", "--hold --no-reserve",
        "--queue --profile 1g.5gb", "--wanted --model A100", "--queue --type mig",
        "--report --min-memory 3G", "--queue --gpu 0", "--wanted --share 1/2",
        "--release", "--release=", "--list --format uuid", "--format index --type mig", "--release a --release-all", "--hold=0 --for 3",
    ];
    for words in cases {
        let failure = parse(words).unwrap_err();
        assert_eq!(failure.kind, Kind::Usage, "{words}");
        assert!(
            !failure.message.contains('\n') && !failure.message.is_empty(),
            "{words}: {failure}"
        );
        assert!(failure.hint.is_some(), "{words}");
    }
}

#[test]
fn every_option_is_in_the_help_with_its_letters() {
    let Action::Text(help) = parse("--help").unwrap().action else {
        panic!()
    };
    for option in table::command().get_opts() {
        let long = option.get_long().map(|long| format!("--{long}"));
        let letters = option.get_short_and_visible_aliases().unwrap_or_default();
        let letters = letters.iter().map(|letter| format!("-{letter}"));
        for name in letters.chain(long) {
            assert!(help.contains(&name), "{name}");
        }
    }
    for line in [
        "export CUDA_VISIBLE_DEVICES=$(getgpu --hold)",
        "os.environ[\"CUDA_VISIBLE_DEVICES\"] = subprocess.check_output([\"getgpu\", \"--hold\"], text=True).strip()",
    ] {
        assert!(help.contains(line));
    }
}

#[test]
fn a_word_that_is_no_index_is_answered_by_what_was_meant() {
    #[rustfmt::skip]
    let cases = [
        ("./app", "did you mean cudawrap -- ./app?"),
        ("-- ./app -x", "did you mean cudawrap -- ./app -x?"),
        ("sh run.sh", "did you mean cudawrap -- sh run.sh?"),
        ("status", "did you mean getgpu --list?"), ("ls", "did you mean getgpu --list?"),
        ("watch", "did you mean getgpu --watch?"), ("nosuchword", "getgpu --help"),
        ("--mem 10G", "did you mean --min-memory?"),
        ("--n 2", "did you mean -n?"), ("--gpus 2", "did you mean --count?"),
        // A time that was taken for an index.
        ("--wait 30", "--wait=30"),
    ];
    for (words, meant) in cases {
        let hint = parse(words).unwrap_err().hint.unwrap();
        assert!(hint.contains(meant), "{words}: {hint}");
    }
    let quoted = super::parse([OsString::from("--gpu 0")].into_iter()).unwrap_err();
    assert_eq!(quoted.message, "--gpu 0: no such option");
    let both = parse("--wait 30").unwrap_err().message;
    assert!(
        both.contains("INDEX 30 and --wait exclude each other"),
        "{both}"
    );
}
