//! That the simulation finds what is broken, and is the same each time.

use super::*;

#[test]
fn a_seed_gives_the_same_script_each_time() {
    for seed in 0..20 {
        let options = Options::of(seed);
        let [one, two] =
            [(); 2].map(|()| simulate(&InMemory::new(None), &options, None, true).script);
        assert_eq!(one, two, "{options}");
    }
}
