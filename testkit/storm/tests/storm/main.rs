//! Storms, small, through the real binary. Their full size is 100 kills: `dauer-storm run --processes 8 --kills 100`.

mod clocks;
mod controls;
mod failing;
mod full;
mod migrate;
mod storms;
mod support;
mod torn;
mod wake;
mod zombies;
