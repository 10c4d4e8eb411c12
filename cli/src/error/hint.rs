//! Hints whose commands can be copied: with the words of this call in them.
//!
//! In a hint a command stands between backquotes. `{id}`, `{verb}`, `{store}` and `{audit}` stand for words of the call. A part in
//! brackets is left out when one of its words is not known.

/// The words of a call that hints need.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Words {
    /// What runs this program.
    pub(crate) program: String,
    /// The verb of the call.
    pub(crate) verb: Option<String>,
    /// The instance that the call is about.
    pub(crate) id: Option<String>,
    /// The option that names the store, with a space before it; empty when the next call has the same store without it.
    pub(crate) store: String,
    /// The store as `dauer audit` takes it; none for a server.
    pub(crate) audit: Option<String>,
}

/// A hint with the words of the call.
pub(crate) fn complete(hint: &str, words: &Words) -> String {
    let mut shown = String::new();
    let mut rest = hint;
    while let Some((before, bracket)) = rest.split_once('[') {
        shown.push_str(&filled(before, words).0);
        let (part, after) = bracket.split_once(']').unwrap_or((bracket, ""));
        let (part, known) = filled(part, words);
        shown.push_str(if known { &part } else { "" });
        rest = after;
    }
    shown.push_str(&filled(rest, words).0);
    shown
}

/// Fills in the words. Returns whether all of them are known.
fn filled(text: &str, words: &Words) -> (String, bool) {
    let mut known = true;
    let mut text = text.replace("`dauer ", &format!("`{} ", words.program)).replace("{store}", &words.store);
    for (mark, word, stand_in) in
        [("{id}", &words.id, "ID"), ("{verb}", &words.verb, "VERB"), ("{audit}", &words.audit, "STORE")]
    {
        if text.contains(mark) {
            known &= word.is_some();
            text = text.replace(mark, word.as_deref().unwrap_or(stand_in));
        }
    }
    (text, known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_call_are_in_the_commands() {
        let words = Words {
            program: "/bin/dauer".to_owned(),
            id: Some("order-7".to_owned()),
            store: " --store shop.db".to_owned(),
            ..Words::default()
        };
        let hint =
            "look with `dauer get {id}{store}`[; `dauer audit {audit}` checks][, or `dauer list{store}`]";
        let shown =
            "look with `/bin/dauer get order-7 --store shop.db`, or `/bin/dauer list --store shop.db`";
        assert_eq!(complete(hint, &words), shown);
        let nothing = Words { program: "dauer".to_owned(), ..Words::default() };
        assert_eq!(complete("`dauer get {id}{store}`[ {id}]", &nothing), "`dauer get ID`");
    }
}
