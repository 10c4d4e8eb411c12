//! The activities that a worker executes, or whose answers it has not brought yet: what it says to a server when it comes again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dauer_proto::ActivityRequest;
use dauer_rpc::ExecutedActivity;

/// All of them, by their tokens.
#[derive(Clone, Default)]
pub(super) struct Executing(Arc<Mutex<BTreeMap<String, String>>>);

/// One of them, until it is dropped.
pub(super) struct Execution {
    of: Executing,
    token: String,
}

impl Executing {
    /// The worker begins an activity that it was given under that token.
    pub(super) fn begin(&self, request: &ActivityRequest, token: &str) -> Execution {
        let instance = request.orchestration_instance.as_ref().map(|instance| instance.instance_id.clone());
        self.lock().insert(token.to_owned(), instance.unwrap_or_default());
        Execution { of: self.clone(), token: token.to_owned() }
    }

    /// What is told to the server.
    pub(super) fn all(&self) -> Vec<ExecutedActivity> {
        let all = self.lock();
        let told = |(token, instance): (&String, &String)| ExecutedActivity {
            instance_id: instance.clone(),
            completion_token: token.clone(),
        };
        all.iter().map(told).collect()
    }

    /// Nothing panics while it is locked.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Execution {
    fn drop(&mut self) {
        self.of.lock().remove(&self.token);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dauer_proto::OrchestrationInstance;

    #[test]
    fn activity_is_told_from_its_begin_until_its_answer_is_taken() {
        let executing = Executing::default();
        let instance = OrchestrationInstance { instance_id: "order".into(), execution_id: None };
        let request =
            ActivityRequest { orchestration_instance: Some(instance), ..ActivityRequest::default() };
        let first = executing.begin(&request, "one");
        let _second = executing.begin(&request, "two");
        assert_eq!(executing.all().len(), 2);
        drop(first);
        let left = executing.all();
        assert_eq!((left[0].instance_id.as_str(), left[0].completion_token.as_str()), ("order", "two"));
    }
}
