//! Copies between device blocks and host memory, as plain data. They run beside steps.

use std::time::Duration;

use foundation::BlockId;

/// A place in host memory for one block of one KV group, all its layers. Every group counts its slots from zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostSlot(pub u32);

/// One block's copy, one way or the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostCopy {
    /// Index of the KV group.
    pub group: u32,
    /// On the device.
    pub block: BlockId,
    /// On the host.
    pub slot: HostSlot,
}

/// Which way blocks go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyWay {
    /// To the host.
    Out,
    /// Back to the device.
    In,
}

/// Number of a batch of copies, counting up from 1 within one runner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CopyId(pub u64);

/// A batch of copies that has been made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    /// Which.
    pub id: CopyId,
    /// What it took by itself, without what it waited for.
    pub time: Duration,
}
