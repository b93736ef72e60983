//! What is there for the backend on this machine, and what is not: for people who look their installation over.

use crate::driver::{DeviceLimits, DriverError, Gpu, cublaslt::Cublaslt, driver_version};

/// What was found. Nothing of it is opened for longer than the look takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Survey {
    /// The CUDA version that the driver speaks, `CUDA 13.0`, or why there is none.
    pub driver: Result<String, DriverError>,
    /// The visible GPUs, in the driver's order, or why there are none, or why the first of them is not to be had.
    pub gpus: Result<Vec<DeviceLimits>, DriverError>,
    /// Compute capabilities that this build has kernels for, as nvcc writes them.
    pub architectures: Vec<&'static str>,
    /// The library for large products, with its file, or why there is none.
    pub cublaslt: Result<String, String>,
}

/// Looks this machine over.
pub fn survey() -> Survey {
    let library = Cublaslt::open(&[]);
    Survey {
        driver: driver_version().map(spelled),
        gpus: usable(),
        architectures: crate::built_architectures(),
        cublaslt: library.map(|found| format!("{found:?}")).map_err(|why| why.to_string()),
    }
}

/// Lists the GPUs and opens the one that models would run on: another process may have it to itself.
fn usable() -> Result<Vec<DeviceLimits>, DriverError> {
    let gpus = Gpu::list()?;
    match Gpu::open(0) {
        // A build without kernels is told apart.
        Ok(_) | Err(DriverError::NoKernels) => Ok(gpus),
        Err(error) => Err(error),
    }
}

/// A CUDA version as people write it, from `1000 * major + 10 * minor`.
pub(crate) fn spelled(version: i32) -> String {
    format!("CUDA {}.{}", version / 1000, version % 1000 / 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_spelled_with_a_point() {
        assert_eq!(spelled(13000), "CUDA 13.0");
        assert_eq!(spelled(12040), "CUDA 12.4");
    }

    #[test]
    fn a_machine_without_a_driver_says_so() {
        let found = survey();
        assert_eq!(found.driver.is_err(), matches!(found.driver, Err(DriverError::NoDriver)));
        assert!(found.driver.is_ok() || found.gpus == Err(DriverError::NoDriver));
    }
}
