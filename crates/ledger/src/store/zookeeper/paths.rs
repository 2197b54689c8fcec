//! Where rows stand in ZooKeeper's tree: `/prefix/FOLDER/LEAF`.
//!
//! A key is parted at its last slash: what comes before names a folder, in which slashes are spelled `~`. So
//! the tree is two deep however long a key is, and a folder's children are what a span looks through.

use super::Span;

#[derive(Debug)]
pub(super) struct Paths {
    root: String,
}

impl Paths {
    pub(super) fn under(prefix: &str) -> Self {
        Self { root: format!("/{prefix}") }
    }

    pub(super) fn root(&self) -> &str {
        &self.root
    }

    pub(super) fn folder(&self, folder: &str) -> String {
        format!("{}/{folder}", self.root)
    }

    pub(super) fn row(&self, key: &str) -> String {
        let (folder, leaf) = Self::split(key);
        format!("{}/{folder}/{leaf}", self.root)
    }

    /// The folder and the leaf of a key.
    pub(super) fn split(key: &str) -> (String, &str) {
        match key.rsplit_once('/') {
            Some((folder, leaf)) => (folder.replace('/', "~"), leaf),
            None => ("~".to_owned(), key),
        }
    }

    pub(super) fn key(folder: &str, leaf: &str) -> String {
        if folder == "~" { leaf.to_owned() } else { format!("{}/{leaf}", folder.replace('~', "/")) }
    }

    /// Whether a folder's keys, which all begin with its name and a slash, reach into the span.
    pub(super) fn may_hold(folder: &str, span: &Span) -> bool {
        let name = folder.replace('~', "/");
        format!("{name}/") < span.to && span.from < format!("{name}0")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::keyed::Order;

    #[test]
    fn every_key_has_one_path_and_is_found_by_its_span() {
        let span = |from: &str, to: &str| Span {
            from: from.to_owned(),
            to: to.to_owned(),
            order: Order::Up,
            limit: None,
        };
        let paths = Paths::under("a/b");
        assert_eq!(paths.row("open/n.1/events:7/00ff"), "/a/b/open~n.1~events:7/00ff");
        assert_eq!(paths.row("head"), "/a/b/~/head");
        for key in ["head", "node/a.b", "lease/events/00007", "open/n/links/000000000000002a"] {
            let (folder, leaf) = Paths::split(key);
            assert_eq!(Paths::key(&folder, leaf), key);
        }
        assert!(Paths::may_hold("lease~events", &span("lease/", "lease0")));
        assert!(Paths::may_hold("claim~a", &span("claim/a/", "claim/a/000000000000002a")));
        assert!(!Paths::may_hold("claim~a-b", &span("claim/a/", "claim/a0")));
        assert!(!Paths::may_hold("claim~a:1", &span("claim/a/", "claim/a0")));
    }
}
