//! What a device can do, as the driver says.

use cudarc::driver::sys::{self, CUdevice, CUdevice_attribute as Attribute};
use foundation::Bytes;

use super::error::{DriverError, check};

/// The facts about a device that plans depend on. Plain data: a test can make one up.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceLimits {
    /// As the driver calls it: `NVIDIA H200`.
    pub name: String,
    /// Compute capability, major times ten plus minor: 90.
    pub arch: u32,
    /// Streaming multiprocessors.
    pub sms: u32,
    /// Shared memory that one block may have, in bytes.
    pub shared_per_block: u32,
    /// Shared memory of one multiprocessor, in bytes.
    pub shared_per_sm: u32,
    /// Second-level cache.
    pub l2: Bytes,
    /// Memory of the device, whoever uses it.
    pub memory: Bytes,
    /// The product of memory clock and bus width: what the pins could carry, bytes a second. 0 where the driver does not say.
    pub pin_bandwidth: u64,
}

/// Devices by the driver's name, with what they were measured to read: bytes a second, streaming, nothing written.
const READ_CEILINGS: &[(&str, f64)] = &[("NVIDIA H200", 4.70e12)];

impl DeviceLimits {
    /// An H200, for plans that are made without a device.
    pub fn h200() -> DeviceLimits {
        DeviceLimits {
            name: "NVIDIA H200".to_owned(),
            arch: 90,
            sms: 132,
            shared_per_block: 227 * 1024,
            shared_per_sm: 228 * 1024,
            l2: Bytes(60 << 20),
            memory: Bytes(150_754_820_096),
            pin_bandwidth: 4_916_000_000_000,
        }
    }

    /// Bytes a second that the device's memory delivers at the most: measured where the device is known, else what its pins
    /// could carry. `None` where the driver does not say.
    pub fn read_ceiling(&self) -> Option<f64> {
        let measured = READ_CEILINGS.iter().find(|(name, _)| *name == self.name);
        let pins = (self.pin_bandwidth > 0).then_some(self.pin_bandwidth as f64);
        measured.map(|(_, ceiling)| *ceiling).or(pins)
    }

    /// Whether the device has bulk copies, clusters, and launches that overlap their predecessor.
    pub fn is_hopper_or_later(&self) -> bool {
        self.arch >= 90
    }

    /// Whether `wgmma` instructions are there: sm_90a alone.
    pub fn has_wgmma(&self) -> bool {
        self.arch == 90
    }

    pub(super) fn of(device: CUdevice) -> Result<DeviceLimits, DriverError> {
        let number = |attribute| attribute_of(device, attribute);
        let major = number(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = number(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        let clock_khz = number(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE).unwrap_or(0);
        let bus_bits = number(Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH).unwrap_or(0);
        let mut memory = 0;
        // SAFETY: `memory` is a valid place, `device` comes from the driver.
        check("cuDeviceTotalMem", unsafe { sys::cuDeviceTotalMem_v2(&mut memory, device) })?;
        Ok(DeviceLimits {
            name: name_of(device)?,
            arch: major * 10 + minor,
            sms: number(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            shared_per_block: number(
                Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
            )?,
            shared_per_sm: number(
                Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
            )?,
            l2: Bytes(u64::from(number(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?)),
            memory: Bytes(memory as u64),
            // Two transfers a clock.
            pin_bandwidth: 2 * u64::from(clock_khz) * 1000 * u64::from(bus_bits) / 8,
        })
    }
}

fn attribute_of(device: CUdevice, attribute: Attribute) -> Result<u32, DriverError> {
    let mut value = 0;
    // SAFETY: `value` is a valid place, `device` comes from the driver.
    let result = unsafe { sys::cuDeviceGetAttribute(&mut value, attribute, device) };
    check("cuDeviceGetAttribute", result)?;
    Ok(u32::try_from(value).unwrap_or(0))
}

fn name_of(device: CUdevice) -> Result<String, DriverError> {
    let mut name = [0u8; 128];
    // SAFETY: the driver writes at most `name.len()` bytes, the last of them NUL.
    let result =
        unsafe { sys::cuDeviceGetName(name.as_mut_ptr().cast(), name.len() as i32, device) };
    check("cuDeviceGetName", result)?;
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    Ok(String::from_utf8_lossy(&name[..end]).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_device_has_its_measured_ceiling_and_another_that_of_its_pins() {
        let h200 = DeviceLimits::h200();
        assert_eq!(h200.read_ceiling(), Some(4.70e12));
        let other = DeviceLimits { name: "another".to_owned(), ..h200 };
        assert_eq!(other.read_ceiling(), Some(4.916e12));
        assert_eq!(DeviceLimits { pin_bandwidth: 0, ..other }.read_ceiling(), None);
    }
}
