//! What no file of the repository may say: paths of one person's machine, addresses that are not
//! public documentation. The project is to read the same everywhere.

use std::collections::BTreeMap;

use super::Finding;

/// Folders at the root of some machine. They are put together here, so that this file passes.
const MACHINE_ROOTS: &[&str] = &["home", "root", "work", "Users", "mnt", "workspace", "builds"];

/// Hosts that files may point to.
const HOSTS: &[&str] = &[
    "127.0.0.1",
    "localhost",
    "[::1]",
    "0.0.0.0",
    "arxiv.org",
    "doc.rust-lang.org",
    "docs.rs",
    "example.com",
    "example.org",
    "github.com",
    "huggingface.co",
    "json-schema.org",
    "openai.com",
    "platform.openai.com",
    "spdx.org",
    "www.apache.org",
    "www.w3.org",
];

/// Endings that are reserved for examples and tests, and lead nowhere.
const RESERVED: &[&str] = &[".test", ".example", ".invalid", ".localhost"];

/// Files that others write, with names and addresses as they must be.
const EXEMPT: &[&str] = &["Cargo.lock", "LICENSE"];

/// Folders with inputs as other projects publish them.
const EXEMPT_FOLDERS: &[&str] = &["fixtures/", "benches/configs/"];

/// Findings for every line that says such a thing.
pub fn check(texts: &BTreeMap<String, String>) -> Vec<Finding> {
    let texts = texts.iter().filter(|(path, _)| !is_exempt(path));
    texts.flat_map(|(path, text)| check_one(path, text)).collect()
}

fn is_exempt(path: &str) -> bool {
    let data = EXEMPT_FOLDERS.iter().any(|folder| path.starts_with(folder));
    EXEMPT.contains(&path) || (data && !path.ends_with(".md") && !path.ends_with(".py"))
}

fn check_one(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let place = format!("{path}:{}", number + 1);
        for root in machine_paths(line) {
            findings.push(Finding::new(&place, format!("names a path of one machine: {root}")));
        }
        for host in hosts(line).filter(|host| !is_public(host)) {
            let message = format!("points to `{host}`, which is not in the list of hosts");
            findings.push(Finding::new(&place, message));
        }
    }
    findings
}

fn is_public(host: &str) -> bool {
    HOSTS.contains(&host) || RESERVED.iter().any(|ending| host.ends_with(ending))
}

fn machine_paths(line: &str) -> Vec<String> {
    let outside = ["..", "/", "shared"].concat();
    let roots = MACHINE_ROOTS.iter().map(|root| format!("/{root}/"));
    roots
        .filter(|root| starts_a_path(line, root))
        .chain(line.contains(&outside).then_some(outside))
        .collect()
}

/// Whether the text stands in the line other than inside a longer path or address.
fn starts_a_path(line: &str, root: &str) -> bool {
    line.match_indices(root).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|letter| letter.is_alphanumeric() || "_-.}*~".contains(letter))
    })
}

/// The hosts of all addresses in the line. A placeholder or a format argument is none.
fn hosts(line: &str) -> impl Iterator<Item = &str> {
    line.split("://").skip(1).filter_map(|rest| {
        let end = rest.find(|c: char| !(c.is_alphanumeric() || "-.[]:".contains(c)));
        let host = &rest[..end.unwrap_or(rest.len())];
        let host = match host.starts_with('[') {
            true => host.split_inclusive(']').next().unwrap_or(host),
            false => host.split(':').next().unwrap_or(host),
        };
        let host = host.trim_end_matches('.');
        host.contains(['.', '[']).then_some(host)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(line: &str) -> Vec<String> {
        check_one("a.md", line).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn paths_of_a_machine_are_found() {
        let line = format!("see {}/thing", ["", "home", "me"].join("/"));
        assert_eq!(messages(&line).len(), 1);
        assert_eq!(messages(&["../", "shared/x"].concat()).len(), 1);
    }

    #[test]
    fn the_same_words_inside_a_longer_path_pass() {
        assert_eq!(messages("github.com/work/repo, target/root/x, <root>/work"), [""; 0]);
    }

    #[test]
    fn known_hosts_placeholders_and_arguments_pass() {
        let line = "http://127.0.0.1:8000/v1 https://huggingface.co/x http://[::1]:80 http://{addr}/ http://a.test";
        assert_eq!(messages(line), [""; 0]);
    }

    #[test]
    fn any_other_host_is_found() {
        let line = ["https:", "//", "files.inside.net/simple"].concat();
        assert_eq!(
            messages(&line),
            ["points to `files.inside.net`, which is not in the list of hosts"]
        );
    }

    #[test]
    fn data_of_others_is_not_judged_but_what_is_said_about_it_is() {
        assert!(is_exempt("fixtures/llama/tokenizer.json"));
        assert!(!is_exempt("fixtures/README.md"));
    }
}
