//! Rows of figures, and the middle of many.

/// Prints a name and its figures.
pub(crate) fn print_row(name: &str, figures: &[&str]) {
    let figures: String = figures.iter().map(|it| format!("{it:>13}")).collect();
    println!("{name:<34}{figures}");
}

/// The middle one, or the upper of the two in the middle.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_unstable_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The figure that this share of `sorted` is at or below.
pub(crate) fn quantile(sorted: &[u32], share: f64) -> u32 {
    let at = (sorted.len() as f64 * share) as usize;
    sorted.get(at).or(sorted.last()).copied().unwrap_or(0)
}
