//! Names of cached blocks: a hash chain over everything that a block's contents depend on.

use foundation::{DType, TokenId};
use sha2::{Digest, Sha256};

/// The name of one full block: SHA-256 over its parent's name and its tokens. Two blocks with different beginnings
/// have different names for every practical purpose, so a hit need not compare tokens, and no request can be crafted
/// to read another's cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockKey([u8; 32]);

/// What a whole sequence's cache depends on beside its tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainRoot {
    /// Precision of the cache.
    pub kv_dtype: DType,
    /// Position regime.
    pub regime: u32,
    /// Weight deltas.
    pub adapter: Option<u32>,
    /// Whose caches may meet.
    pub cache_salt: Option<String>,
}

impl ChainRoot {
    fn key(&self) -> BlockKey {
        let mut hash = Sha256::new();
        hash.update(self.kv_dtype.name());
        hash.update([0]);
        hash.update(self.regime.to_le_bytes());
        // One byte tells an absent value from every present one.
        hash.update([u8::from(self.adapter.is_some())]);
        hash.update(self.adapter.unwrap_or_default().to_le_bytes());
        hash.update([u8::from(self.cache_salt.is_some())]);
        hash.update(self.cache_salt.as_deref().unwrap_or_default());
        BlockKey(hash.finalize().into())
    }
}

/// The names of one sequence's full blocks, from the first on.
///
/// Rows whose embedding is given (images) will enter a block's name by the hash of their content, in place of a token.
#[derive(Clone, Debug)]
pub struct KeyChain {
    block_size: usize,
    root: ChainRoot,
    root_key: BlockKey,
    keys: Vec<BlockKey>,
}

impl KeyChain {
    /// The chain of a sequence without tokens.
    pub fn new(root: ChainRoot, block_size: usize) -> Self {
        KeyChain { block_size, root_key: root.key(), root, keys: Vec::new() }
    }

    /// The chain of the same sequence, without tokens, under another position regime.
    pub fn restarted(&self, regime: u32) -> Self {
        KeyChain::new(ChainRoot { regime, ..self.root.clone() }, self.block_size)
    }

    /// Names every full block of `tokens`, the whole sequence so far. Blocks named before are not hashed again.
    pub fn extend(&mut self, tokens: &[TokenId]) {
        for block in tokens.chunks_exact(self.block_size).skip(self.keys.len()) {
            let mut hash = Sha256::new();
            hash.update(self.keys.last().unwrap_or(&self.root_key).0);
            block.iter().for_each(|token| hash.update(token.0.to_le_bytes()));
            self.keys.push(BlockKey(hash.finalize().into()));
        }
    }

    /// The names, block by block.
    pub fn keys(&self) -> &[BlockKey] {
        &self.keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(ids: &[u32]) -> Vec<TokenId> {
        ids.iter().map(|id| TokenId(*id)).collect()
    }

    fn chain(root: ChainRoot, ids: &[u32]) -> Vec<BlockKey> {
        let mut chain = KeyChain::new(root, 2);
        chain.extend(&tokens(ids));
        chain.keys().to_vec()
    }

    const ROOT: ChainRoot =
        ChainRoot { kv_dtype: DType::F32, regime: 0, adapter: None, cache_salt: None };

    #[test]
    fn equal_beginnings_share_names_and_only_they() {
        let a = chain(ROOT, &[1, 2, 3, 4, 5]);
        assert_eq!(a.len(), 2, "a part of a block has no name");
        assert_eq!(a, chain(ROOT, &[1, 2, 3, 4, 9, 9])[..2]);
        let b = chain(ROOT, &[1, 9, 3, 4]);
        assert!(a[0] != b[0] && a[1] != b[1], "a block's name depends on all before it");
    }

    #[test]
    fn everything_in_the_root_tells_caches_apart() {
        let roots = [
            ROOT,
            ChainRoot { kv_dtype: DType::BF16, ..ROOT },
            ChainRoot { regime: 1, ..ROOT },
            ChainRoot { adapter: Some(0), ..ROOT },
            ChainRoot { cache_salt: Some(String::new()), ..ROOT },
            ChainRoot { cache_salt: Some("a".into()), ..ROOT },
        ];
        let mut names: Vec<BlockKey> =
            roots.iter().map(|root| chain(root.clone(), &[1, 2])[0]).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), roots.len());
    }

    #[test]
    fn extending_in_pieces_gives_the_same_names() {
        let all = tokens(&[5, 6, 7, 8, 9, 10]);
        let mut pieces = KeyChain::new(ROOT, 2);
        (0..=all.len()).for_each(|end| pieces.extend(&all[..end]));
        assert_eq!(pieces.keys(), chain(ROOT, &[5, 6, 7, 8, 9, 10]));
    }
}
