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

/// A batch size for steps in which sequences have several rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifyBucket {
    /// Sequences.
    pub sequences: usize,
    /// Rows of all of them.
    pub rows: usize,
}

/// Rows beyond which steps in which sequences have several rows are no longer captured.
const MOST_VERIFY_ROWS: usize = 64;

/// The buckets for up to `queries` rows of a sequence: few sequences with as many rows as they may have, and any.
pub fn verify_buckets(queries: usize, sequences: usize, rows: usize) -> Vec<VerifyBucket> {
    let most = rows.min(MOST_VERIFY_ROWS);
    let full = [1, 2, 4].into_iter().map(|sequences| (sequences, sequences * queries));
    let any = [(most / 2, most / 2), (most, most)];
    full.chain(any)
        .map(|(count, rows)| VerifyBucket { sequences: count.min(sequences), rows })
        .filter(|bucket| bucket.sequences > 0 && bucket.rows <= most)
        .collect()
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
                let bucket = buckets.iter().find(|bucket| **bucket >= sequences).unwrap();
                assert!(*bucket >= sequences && (bucket - sequences) * 2 <= *bucket);
            }
        }
    }

    #[test]
    fn several_rows_of_a_sequence_have_buckets_within_the_steps_limits() {
        let sizes = |queries, sequences, rows| -> Vec<(usize, usize)> {
            let buckets = verify_buckets(queries, sequences, rows).into_iter();
            buckets.map(|bucket| (bucket.sequences, bucket.rows)).collect()
        };
        assert_eq!(sizes(8, 256, 8192), [(1, 8), (2, 16), (4, 32), (32, 32), (64, 64)]);
        assert_eq!(sizes(4, 2, 8192), [(1, 4), (2, 8), (2, 16), (2, 32), (2, 64)]);
        assert_eq!(sizes(8, 256, 20), [(1, 8), (2, 16), (10, 10), (20, 20)]);
    }
}
