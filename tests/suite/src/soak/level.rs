//! Whether a figure stays level from the beginning of a run to its end: by the slope of a
//! straight line through all points, not by eye. Pure.

/// How much a figure grew over the whole run: the slope of the least-squares line, times
/// the time between the first point and the last.
pub(crate) fn growth(points: &[(f64, f64)]) -> f64 {
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return 0.0;
    };
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (middle, level) = (mean(|point| point.0), mean(|point| point.1));
    let spread: f64 = points.iter().map(|(x, _)| (x - middle).powi(2)).sum();
    if spread == 0.0 {
        return 0.0;
    }
    let slope = points
        .iter()
        .map(|(x, y)| (x - middle) * (y - level))
        .sum::<f64>()
        / spread;
    slope * (last.0 - first.0)
}

#[cfg(test)]
mod tests {
    use super::growth;

    #[test]
    fn growth_is_that_of_the_line_through_all_points() {
        let line = |slope: f64| -> Vec<(f64, f64)> {
            (0..100)
                .map(|x| (f64::from(x), 7.0 + slope * f64::from(x)))
                .collect()
        };
        assert!(growth(&line(0.0)).abs() < 1e-9);
        assert!((growth(&line(0.5)) - 49.5).abs() < 1e-9);
        assert!((growth(&line(-0.5)) + 49.5).abs() < 1e-9);
        // One high point in the middle is no growth, a step that stays is.
        let peak: Vec<_> = (0..101)
            .map(|x| (f64::from(x), if x == 50 { 90.0 } else { 7.0 }))
            .collect();
        assert!(growth(&peak).abs() < 1e-9);
        let step: Vec<_> = (0..100)
            .map(|x| (f64::from(x), if x < 50 { 7.0 } else { 8.0 }))
            .collect();
        assert!(growth(&step) > 1.0);
        assert!(growth(&[]).abs() < 1e-9 && growth(&[(3.0, 4.0)]).abs() < 1e-9);
    }
}
