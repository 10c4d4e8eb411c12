//! Mistakes that an engine or a store could make, each as small as it can be, with the invariant it breaks.

pub(crate) mod history;
pub(crate) mod journals;
pub(crate) mod messages;

use dauer_audit::Invariant;

use crate::support::World;

/// One mistake.
pub(crate) struct Mutant {
    /// What the engine or store did.
    pub(crate) name: &'static str,
    /// The one invariant that is broken by it.
    pub(crate) breaks: Invariant,
    /// Words of the violation's sentence, so that it is found for the right reason.
    pub(crate) says: &'static str,
    /// Makes the mistake.
    pub(crate) make: fn(&mut World),
}

pub(crate) const fn mutant(
    name: &'static str,
    breaks: Invariant,
    says: &'static str,
    make: fn(&mut World),
) -> Mutant {
    Mutant { name, breaks, says, make }
}
