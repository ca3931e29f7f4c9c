//! Numbers that look random and depend only on what they are drawn for. The same match and the same fan always get
//! the same.

/// Draws a number for a thing. The salt tells the numbers of the same thing apart.
pub(crate) fn draw(thing: u32, salt: u32) -> u32 {
    // The finaliser of SplitMix64.
    let mut mixed = (u64::from(thing) << 32 | u64::from(salt)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    u32::try_from((mixed ^ (mixed >> 31)) >> 32).unwrap_or_default()
}
