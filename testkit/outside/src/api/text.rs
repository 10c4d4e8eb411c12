//! Tokens as text, spaced as people write them and the same with every version of the libraries that parse them.

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use quote::ToTokens;

/// One line.
pub(super) fn line(tokens: impl ToTokens) -> String {
    let mut words = Vec::new();
    flatten(tokens.to_token_stream(), &mut words);
    let mut line = String::new();
    for word in words.into_iter().filter(|word| !word.is_empty()) {
        if !line.is_empty() && spaced(&line, &word) {
            line.push(' ');
        }
        line.push_str(&word);
    }
    // A list that was written over several lines ends with a comma; one on a single line does not.
    for (written, plain) in [(",)", ")"), (",>", ">"), (", }", " }")] {
        line = line.replace(written, plain);
    }
    line.trim_end_matches(',').to_owned()
}

fn flatten(tokens: TokenStream, words: &mut Vec<String>) {
    let mut joined = false;
    for token in tokens {
        let (word, joins) = match token {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                words.push(open.to_owned());
                flatten(group.stream(), words);
                (close.to_owned(), false)
            }
            TokenTree::Punct(punct) => (punct.to_string(), punct.spacing() == Spacing::Joint),
            other => (other.to_string(), false),
        };
        match words.last_mut() {
            // Two signs that belong together: `::`, `->`, a lifetime.
            Some(last) if joined => last.push_str(&word),
            _ => words.push(word),
        }
        joined = joins;
    }
}

/// Whether a space stands between what is written and the next word.
fn spaced(written: &str, next: &str) -> bool {
    let opens = written.ends_with(['(', '[', '<', '&', '?', '!']) && !written.ends_with("-> !");
    let path = written.ends_with("::") || next.starts_with("::");
    let closes = next.starts_with([',', ';', ':', ')', ']', '>', '.']);
    let generics = next.starts_with('<');
    let called = next.starts_with('(')
        && written.ends_with(|last: char| last.is_alphanumeric() || last == '_' || last == '>')
        && !written.ends_with("->");
    !(opens || path || closes || generics || called)
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn signatures_are_spaced_as_people_write_them() {
        for text in [
            "pub fn call<I: Serialize, O>(&self, activity: Activity<I, O>, input: &I) -> Call<O>",
            "pub async fn run(self, stop: impl Future<Output = ()> + Send + 'static) -> Result<(), Refused>",
            "pub fn status<T: Serialize + ?Sized>(&self, status: &'static T)",
            "impl<F, Fut> Handler<F> for Fut where F: Fn(Context, u32) -> Fut + Send",
            "Called { name: String, input: Option<Vec<std::string::String>> }",
        ] {
            let tokens: proc_macro2::TokenStream = text.parse().unwrap();
            assert_eq!(line(tokens), text);
        }
    }
}
