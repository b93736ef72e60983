//! Batch sizes that decode graphs are captured for: a step is padded up to the next one.

/// The buckets up to `most` sequences: fine steps, so that no more than a quarter of a small batch is padding.
pub fn decode_buckets(most: usize) -> Vec<usize> {
    let mut buckets: Vec<usize> = [1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 56, 64]
        .into_iter()
        .chain((80..=128).step_by(16))
        .chain((160..=256).step_by(32))
        .chain((320..=512).step_by(64))
        .take_while(|bucket| *bucket < most)
        .collect();
    buckets.push(most.min(512));
    buckets
}

/// Index of the smallest of the ascending `buckets` that holds `sequences`.
pub fn bucket_of(mut buckets: impl Iterator<Item = usize>, sequences: usize) -> Option<usize> {
    buckets.position(|bucket| bucket >= sequences)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_batch_has_a_bucket_up_to_the_most() {
        for most in [1, 2, 3, 7, 8, 64, 65, 200, 256, 512] {
            let buckets = decode_buckets(most);
            assert_eq!(buckets.last(), Some(&most));
            assert!(buckets.is_sorted_by(|a, b| a < b), "{buckets:?}");
            for sequences in 1..=most {
                let bucket = buckets[bucket_of(buckets.iter().copied(), sequences).unwrap()];
                assert!(bucket >= sequences && (bucket - sequences) * 2 <= bucket);
            }
            assert_eq!(bucket_of(buckets.iter().copied(), most + 1), None);
        }
    }
}
