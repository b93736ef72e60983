//! What is there for the backend on this machine, and what is not: for people who look their installation over.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use crate::{
    driver::{DeviceLimits, DriverError, Gpu, cublaslt::Cublaslt, driver_version},
    ops::gemm::{Choices, Stamp},
};

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
    /// What is known of matrix products on the first GPU; `None` where there is none, or no folder to keep it in.
    pub products: Option<KeptProducts>,
}

/// The file that keeps how matrix products are fastest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptProducts {
    /// The file, whether it is there or not.
    pub file: PathBuf,
    /// Choices in it that hold for this GPU, driver and library.
    pub count: usize,
}

impl fmt::Display for KeptProducts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.display();
        match self.count {
            0 => write!(f, "nothing known yet: timed when a model is loaded, kept in {file}"),
            count => write!(f, "{count} known to be fastest, from {file}"),
        }
    }
}

/// Looks this machine over; `folder` is where the backend keeps what it finds out.
pub fn survey(folder: Option<&Path>) -> Survey {
    let library = Cublaslt::open(&[]);
    let gpus = usable();
    let stamp = gpus.as_ref().ok().and_then(|gpus| gpus.first()).and_then(|first| {
        let library = library.as_ref().map_or(0, Cublaslt::version);
        Some(Stamp { device: first.name.clone(), driver: driver_version().ok()?, library })
    });
    let products = folder.zip(stamp).map(|(folder, stamp)| {
        let file = folder.join(stamp.file_name());
        KeptProducts { count: Choices::load(&file, &stamp).iter().count(), file }
    });
    Survey {
        driver: driver_version().map(spelled),
        gpus,
        products,
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
        let found = survey(None);
        assert_eq!(found.driver.is_err(), matches!(found.driver, Err(DriverError::NoDriver)));
        assert!(found.driver.is_ok() || found.gpus == Err(DriverError::NoDriver));
        assert_eq!(found.products, None);
    }
}
