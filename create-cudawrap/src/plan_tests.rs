//! What is advised where nothing is done.

use super::*;
use crate::directory::Directory;
use crate::inspect::snapshot;
use crate::inspect::tests::Ground;
use crate::names::Names;
use crate::state::state;

#[test]
fn what_is_left_alone_is_advised_by_what_it_is() {
    const MOVE: &str = "find out what it is, and move it away; ";
    #[rustfmt::skip]
    let cases: [(&str, &[&str], Option<&str>); 5] = [
        ("a directory", &[], Some("name the programs in it")),
        ("a directory and the program", &["CUDAWRAP_x"], Some(MOVE)),
        ("a link to nothing", &["x -> gone"], None),
        ("a link to nothing and the program", &["x -> gone", "CUDAWRAP_x"], Some(MOVE)),
        ("a link without its program", &["x -> ../opt/cudawrap", "CUDAWRAP_x -> ../opt/cudawrap"], Some("install the program again")),
    ];
    for (name, things, advice) in cases {
        let ground = Ground::new();
        things
            .iter()
            .for_each(|thing| ground.put(&format!("app/{thing}")));
        if name.starts_with("a directory") {
            std::fs::create_dir(ground.path("app/x")).unwrap();
        }
        let dir = Directory::open(&ground.path("app")).unwrap();
        let seen = snapshot(&dir, &Names::of(OsStr::new("x")), None).unwrap();
        let hint = plan(&seen, state(&seen), Goal::Wrap, None)
            .unwrap_err()
            .hint;
        let found = hint.as_deref().unwrap_or_default();
        assert_eq!(hint.is_some(), advice.is_some(), "{name}: {found}");
        assert!(
            found.starts_with(advice.unwrap_or_default()),
            "{name}: {found}"
        );
    }
}
