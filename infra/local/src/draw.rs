//! Deterministic pseudo-random numbers: the same match and the same fan always get the same number.

/// Returns the pseudo-random number of an id. The salt separates the numbers of one id.
pub(crate) fn draw(id: u32, salt: u32) -> u32 {
    // The finaliser of SplitMix64.
    let mut mixed = (u64::from(id) << 32 | u64::from(salt)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    u32::try_from((mixed ^ (mixed >> 31)) >> 32).unwrap_or_default()
}
