//! The build id of a worker: which code its process has.

use std::collections::hash_map::DefaultHasher;
use std::fs::File;
use std::hash::Hasher as _;
use std::io::Read as _;
use std::sync::{Arc, OnceLock};

use futures::future::{BoxFuture, FutureExt, Shared, ready};
use tokio::runtime::Handle;

/// The most bytes of a build id: it is in the record of each instance that is stalled, and in a header.
const BYTES_MAX: usize = 100;

/// Bytes of the program that are read at a time.
const CHUNK_BYTES: usize = 256 * 1024;

/// A build id that is still being found. Anyone may wait for it.
pub(crate) type BuildId = Shared<BoxFuture<'static, Option<Arc<str>>>>;

/// The build id that a user has given. One that is long, or has other characters than printable ASCII, stands as its hash.
pub(crate) fn given(text: &str) -> Arc<str> {
    let plain = text.len() <= BYTES_MAX && text.bytes().all(|byte| byte.is_ascii_graphic());
    if plain && !text.is_empty() {
        return text.into();
    }
    let mut hasher = DefaultHasher::new();
    hasher.write(text.as_bytes());
    format!("{:016x}", hasher.finish()).into()
}

/// The hash of the file that this process runs: the same for the same program wherever it lies, and another one for every
/// other program. `None` if the file cannot be read. The file is read on a thread of its own.
pub(crate) fn of_program(runtime: &Handle) -> BuildId {
    static KNOWN: OnceLock<Option<Arc<str>>> = OnceLock::new();
    if let Some(known) = KNOWN.get() {
        return ready(known.clone()).boxed().shared();
    }
    let read = runtime.spawn_blocking(|| KNOWN.get_or_init(hash_of_program).clone());
    async move { read.await.ok().flatten() }.boxed().shared()
}

fn hash_of_program() -> Option<Arc<str>> {
    // The link leads to the file that runs, also when another one has been put in its place meanwhile.
    let opened = File::open("/proc/self/exe");
    let mut file = opened.or_else(|_| std::env::current_exe().and_then(File::open)).ok()?;
    let (mut hasher, mut chunk) = (DefaultHasher::new(), vec![0; CHUNK_BYTES]);
    loop {
        match file.read(&mut chunk).ok()? {
            0 => return Some(format!("{:016x}", hasher.finish()).into()),
            count => hasher.write(&chunk[..count]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_id_fits_into_a_header() {
        assert_eq!(&*given("2026-11-20.7+abc"), "2026-11-20.7+abc");
        for text in ["", "two words", "\n", "ä", &"x".repeat(101)] {
            let id = given(text);
            assert!(id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{text:?}: {id}");
        }
        assert_ne!(given("a b"), given("a c"));
    }

    #[tokio::test]
    async fn program_has_the_same_id_each_time() {
        let first = of_program(&Handle::current()).await;
        assert!(first.is_some());
        assert_eq!(first, of_program(&Handle::current()).await);
    }
}
