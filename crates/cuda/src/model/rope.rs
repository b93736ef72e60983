//! Rotary frequencies on the device.

use models::semantic::RopeSpec;

use crate::driver::{Buffer, DriverError, Stream};

/// One rotary embedding: two tables of frequencies, for sequences below and above its threshold.
#[derive(Debug)]
pub struct DeviceRope {
    /// `[2, half]`, radians a position.
    pub inv_freq: Buffer<f32>,
    /// Multiplies cosine and sine, by table.
    pub factors: [f32; 2],
    /// Half the elements of a head that are rotated.
    pub half: usize,
}

impl DeviceRope {
    /// The tables of `spec`; where it has no threshold both are the same.
    pub fn new(stream: &Stream, spec: &RopeSpec) -> Result<DeviceRope, DriverError> {
        let regimes = [spec.frequencies(0), spec.frequencies(1)];
        let half = regimes[0].inv_freq.len();
        let values: Vec<f32> =
            regimes.iter().flat_map(|regime| regime.inv_freq.iter().copied()).collect();
        let mut inv_freq = stream.gpu().alloc(values.len())?;
        stream.upload(&values, inv_freq.view_mut())?;
        let factors = [regimes[0].attention_factor, regimes[1].attention_factor];
        Ok(DeviceRope { inv_freq, factors, half })
    }
}
