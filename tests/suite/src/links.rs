//! The links of installed pages: each leads to a file that was installed, also to its heading.
//! A page and what it links lie below one directory, as a package's files do before they are installed.

use std::path::{Component, Path, PathBuf};

/// What follows `](` up to `)` in a page.
fn targets(page: &str) -> impl Iterator<Item = &str> {
    let links = page.split("](").skip(1);
    links.filter_map(|rest| rest.split_once(')').map(|(target, _)| target))
}

/// The anchors of a page's headings, as the sites that show Markdown make them.
fn anchors(page: &str) -> Vec<String> {
    let headings = page.lines().filter(|line| line.starts_with('#'));
    let anchor = |line: &str| {
        let text = line.trim_start_matches('#').trim().to_lowercase();
        let kept = text
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.collect::<String>().replace(' ', "-")
    };
    headings.map(anchor).collect()
}

/// The same path without `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(normal.pop()),
            other => normal.push(other),
        }
    }
    normal
}

/// Each link of the pages below `root` that leads nowhere, and how many links there are; an absolute link begins at `root`.
pub fn broken(root: &Path) -> (Vec<String>, usize) {
    let (mut broken, mut followed) = (Vec::new(), 0);
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder").flatten() {
            let path = entry.path();
            if entry.file_type().expect("its type").is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "md") {
                let page = std::fs::read_to_string(&path).expect("a page");
                for target in targets(&page).filter(|target| !target.contains("://")) {
                    followed += 1;
                    if !leads(root, &path, &page, target) {
                        broken.push(format!("{}: {target}", path.display()));
                    }
                }
            }
        }
    }
    (broken, followed)
}

/// Whether a link of a page leads to a file, and to a heading of it if it names one.
fn leads(root: &Path, path: &Path, page: &str, target: &str) -> bool {
    let (file, heading) = target.split_once('#').unwrap_or((target, ""));
    let there = match file.strip_prefix('/') {
        Some(absolute) => root.join(absolute),
        None => normal(&path.parent().expect("a folder").join(file)),
    };
    let text = match file {
        "" => Some(page.to_owned()),
        _ => std::fs::read(&there)
            .ok()
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
    };
    text.is_some_and(|text| {
        heading.is_empty() || anchors(&text).iter().any(|known| known == heading)
    })
}
