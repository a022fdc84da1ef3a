//! The path of a structure in nested data, for messages.

/// The maximum depth of nested data. Arrow's kernels recurse once per level. In an unoptimized
/// build, these kernels overflow a thread's 2 MiB stack at 50 to 60 levels.
pub(crate) const MAX_DEPTH: usize = 32;

/// A position in nested data: a column or one of its parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node<'a> {
    parent: Option<&'a Node<'a>>,
    name: &'a str,
    depth: usize,
}

impl<'a> Node<'a> {
    /// Returns the root node, which represents entire rows.
    pub(crate) fn root() -> Self {
        Node { parent: None, name: "", depth: 0 }
    }

    pub(crate) fn child(&'a self, name: &'a str) -> Self {
        Node { parent: Some(self), name, depth: self.depth + 1 }
    }

    pub(crate) fn is_too_deep(&self) -> bool {
        self.depth > MAX_DEPTH
    }

    /// Returns the names on the path, starting with the column, or `None` at the root.
    pub(crate) fn path(&self) -> Option<String> {
        let parent = self.parent?;
        Some(match parent.path() {
            Some(path) => format!("{path}.{}", self.name),
            None => self.name.to_owned(),
        })
    }
}
