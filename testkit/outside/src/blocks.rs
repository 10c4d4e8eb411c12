//! The code blocks of a document.

/// One block between fences.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// What stands behind the opening fence: `sh`, `rust,no_run`.
    pub info: String,
    /// The lines between the fences.
    pub text: String,
}

impl Block {
    /// The language: what comes first behind the fence.
    #[must_use]
    pub fn language(&self) -> &str {
        self.info.split([',', ' ']).next().unwrap_or_default()
    }
}

/// All fenced blocks, in order.
#[must_use]
pub fn blocks(document: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut open: Option<Block> = None;
    for line in document.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(info), None) => open = Some(Block { info: info.trim().to_owned(), text: String::new() }),
            (Some(_), Some(_)) => found.extend(open.take()),
            (None, Some(block)) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    found
}
