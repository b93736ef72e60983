//! NVIDIA's matrix product library, opened at run time where it is there.
//!
//! The library's types come from `cudarc`; its functions are looked up here, because which file is opened matters (an old
//! `libcublasLt.so` beside a new one) and a missing one must be an answer, not a panic.

use std::{
    ffi::{c_int, c_void},
    fmt,
    path::{Path, PathBuf},
    ptr,
};

use cudarc::cublaslt::sys::{
    self, cublasLtHandle_t, cublasLtMatmulAlgo_t, cublasLtMatmulDesc_t,
    cublasLtMatmulDescAttributes_t as DescAttribute, cublasLtMatmulHeuristicResult_t,
    cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t as PreferenceAttribute,
    cublasLtMatrixLayout_t,
};
use libloading::Library;

use super::stream::Stream;

/// Files that may hold it, the preferred one first. Both majors have the same interface as far as it is used here.
const NAMES: [&str; 2] = ["libcublasLt.so.13", "libcublasLt.so.12"];
/// Major versions whose interface is the one below.
const MAJORS: [usize; 2] = [12, 13];

/// `cudaDataType`: the numbers are part of the library's interface.
const BF16: u32 = 14;
const F32: u32 = 0;
/// `CUBLAS_COMPUTE_32F`.
const COMPUTE_F32: u32 = 68;
/// `CUBLAS_OP_T`.
const TRANSPOSED: i32 = 1;
/// `CUBLASLT_EPILOGUE_BIAS`.
const EPILOGUE_BIAS: u32 = 4;
/// Partial sums are added in f32 and in order, or not split at all: no scheme that rounds them or depends on who is first.
const REDUCTION: u32 = 2;

/// Why the library, or one of its calls, is of no use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    /// No file of it is of use.
    #[error("no cuBLASLt of use ({}): large products run on this program's own kernels", .tried.join("; "))]
    Missing {
        /// What was tried, each with the loader's reason or the library's.
        tried: Vec<String>,
    },
    /// A file was opened that does not have all functions.
    #[error("{file} lacks {symbol}")]
    Symbol {
        /// The file.
        file: String,
        /// The function.
        symbol: &'static str,
    },
    /// Neither major version that is known.
    #[error("its version is {}.{}, which is neither 12 nor 13", .found / 10_000, .found % 10_000 / 100)]
    Major {
        /// As the library says.
        found: usize,
    },
    /// The library has no algorithm for a product.
    #[error("cuBLASLt has no algorithm for {0:?}")]
    NoAlgorithm(ProductShape),
    /// A call failed.
    #[error("{call}: cuBLAS status {status}")]
    Call {
        /// The function.
        call: &'static str,
        /// `cublasStatus_t`.
        status: c_int,
    },
}

/// A product as the library sees it: `y [rows, n] = x [rows, k] * w [n, k]^T`, inputs in bf16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProductShape {
    /// Rows of `x`.
    pub rows: u32,
    /// Rows of `w`.
    pub n: u32,
    /// Columns of both.
    pub k: u32,
    /// `n` f32 numbers are added to each row.
    pub bias: bool,
    /// `y` is f32; else bf16.
    pub wide: bool,
    /// `y` is added to.
    pub add: bool,
}

/// One of the library's ways to do a product. Plain data that stays valid for the library's version, the device and the shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Algorithm {
    /// What only the library can read.
    pub data: [u64; 8],
    /// Bytes of workspace it needs.
    pub workspace: u64,
}

/// Addresses of a product's matrices; see [`ProductShape`].
#[derive(Clone, Copy, Debug)]
pub struct Operands {
    /// `x`.
    pub x: u64,
    /// `w`.
    pub w: u64,
    /// Bias; read only where the shape has one.
    pub bias: u64,
    /// `y`.
    pub y: u64,
    /// Scratch memory, and how many bytes.
    pub workspace: (u64, u64),
}

macro_rules! functions {
    ($($name:ident = $symbol:literal ($($argument:ty),*);)*) => {
        /// The library's functions. Every one returns a `cublasStatus_t`.
        #[derive(Clone, Copy)]
        struct Functions {
            $($name: unsafe extern "C" fn($($argument),*) -> c_int,)*
        }

        impl Functions {
            fn find(library: &Library, file: &str) -> Result<Functions, Why> {
                Ok(Functions {
                    $($name: {
                        // SAFETY: the symbol's type is as the library's header declares it for majors 12 and 13.
                        let symbol = unsafe {
                            library.get::<unsafe extern "C" fn($($argument),*) -> c_int>($symbol)
                        };
                        *symbol.map_err(|_| Why::Symbol { file: file.to_owned(), symbol: stringify!($name) })?
                    },)*
                })
            }
        }
    };
}

functions! {
    create = b"cublasLtCreate\0" (*mut cublasLtHandle_t);
    desc_create = b"cublasLtMatmulDescCreate\0" (*mut cublasLtMatmulDesc_t, u32, u32);
    desc_destroy = b"cublasLtMatmulDescDestroy\0" (cublasLtMatmulDesc_t);
    desc_set = b"cublasLtMatmulDescSetAttribute\0" (cublasLtMatmulDesc_t, u32, *const c_void, usize);
    layout_create = b"cublasLtMatrixLayoutCreate\0" (*mut cublasLtMatrixLayout_t, u32, u64, u64, i64);
    layout_destroy = b"cublasLtMatrixLayoutDestroy\0" (cublasLtMatrixLayout_t);
    preference_create = b"cublasLtMatmulPreferenceCreate\0" (*mut cublasLtMatmulPreference_t);
    preference_destroy = b"cublasLtMatmulPreferenceDestroy\0" (cublasLtMatmulPreference_t);
    preference_set = b"cublasLtMatmulPreferenceSetAttribute\0" (cublasLtMatmulPreference_t, u32, *const c_void, usize);
    heuristic = b"cublasLtMatmulAlgoGetHeuristic\0" (
        cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
        cublasLtMatrixLayout_t, cublasLtMatmulPreference_t, c_int, *mut Found, *mut c_int
    );
    check = b"cublasLtMatmulAlgoCheck\0" (
        cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
        cublasLtMatrixLayout_t, *const cublasLtMatmulAlgo_t, *mut Found
    );
    matmul = b"cublasLtMatmul\0" (
        cublasLtHandle_t, cublasLtMatmulDesc_t, *const c_void, *const c_void, cublasLtMatrixLayout_t, *const c_void,
        cublasLtMatrixLayout_t, *const c_void, *const c_void, cublasLtMatrixLayout_t, *mut c_void, cublasLtMatrixLayout_t,
        *const cublasLtMatmulAlgo_t, *mut c_void, usize, sys::cudaStream_t
    );
}

/// `cublasLtMatmulHeuristicResult_t`, its state as a plain number: a library may know states that the bindings do not.
#[derive(Clone, Copy)]
#[repr(C)]
struct Found {
    algorithm: cublasLtMatmulAlgo_t,
    workspace: usize,
    state: c_int,
    waves: f32,
    reserved: [c_int; 4],
}
const _: () = assert!(size_of::<Found>() == size_of::<cublasLtMatmulHeuristicResult_t>());

const NOTHING_FOUND: Found = Found {
    algorithm: cublasLtMatmulAlgo_t { data: [0; 8] },
    workspace: 0,
    state: 0,
    waves: 0.0,
    reserved: [0; 4],
};

struct Opened {
    functions: Functions,
    handle: cublasLtHandle_t,
    file: String,
    version: usize,
}

// SAFETY: the library lets every thread use a handle; descriptors are used by one thread at a time (`Product` is not `Sync`).
unsafe impl Send for Opened {}
// SAFETY: as above; nothing in it changes after `open`.
unsafe impl Sync for Opened {}

/// Whether a library of that version has the interface that is used here.
fn known_major(version: usize) -> Result<(), Why> {
    match MAJORS.contains(&(version / 10_000)) {
        true => Ok(()),
        false => Err(Why::Major { found: version }),
    }
}

/// Why the loader did not open `place`: its own words, which lie beneath the error, and `place` not twice.
fn refusal(place: &Path, error: &dyn std::error::Error) -> String {
    let words = error.source().map_or_else(|| error.to_string(), ToString::to_string);
    let again = format!("{}: ", place.display());
    words.strip_prefix(&again).unwrap_or(&words).to_owned()
}

/// The opened library. It stays open as long as the process lives: closing its handle waits for the whole device, which breaks
/// off whatever another thread captures there, and unloading it takes away code that captured graphs launch.
#[derive(Clone, Copy)]
pub struct Cublaslt(&'static Opened);

impl fmt::Debug for Cublaslt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cuBLASLt {} ({})", self.0.version, self.0.file)
    }
}

impl Cublaslt {
    /// Opens the library where the dynamic loader finds it, then in `folders`. The context of the device must be current.
    pub fn open(folders: &[PathBuf]) -> Result<Cublaslt, Why> {
        let mut tried = Vec::new();
        let places = NAMES.iter().map(PathBuf::from);
        let places =
            places.chain(folders.iter().flat_map(|folder| NAMES.map(|name| folder.join(name))));
        for place in places {
            // SAFETY: NVIDIA's library may be initialised on any thread, and is kept open while functions of it are known.
            match unsafe { Library::new(&place) } {
                Ok(library) => match Cublaslt::of(library, place.display().to_string()) {
                    Ok(opened) => return Ok(opened),
                    Err(why) => tried.push(format!("{}: {why}", place.display())),
                },
                Err(error) => {
                    tried.push(format!("{}: {}", place.display(), refusal(&place, &error)));
                }
            }
        }
        Err(Why::Missing { tried })
    }

    fn of(library: Library, file: String) -> Result<Cublaslt, Why> {
        let functions = Functions::find(&library, &file)?;
        // SAFETY: takes nothing, returns a `size_t`, in all versions.
        let version = unsafe {
            library.get::<unsafe extern "C" fn() -> usize>(b"cublasLtGetVersion\0").map(|f| f())
        };
        let version = version
            .map_err(|_| Why::Symbol { file: file.clone(), symbol: "cublasLtGetVersion" })?;
        known_major(version)?;
        let mut handle = ptr::null_mut();
        // SAFETY: `handle` is a valid place for the answer.
        check("cublasLtCreate", unsafe { (functions.create)(&mut handle) })?;
        std::mem::forget(library);
        Ok(Cublaslt(Box::leak(Box::new(Opened { functions, handle, file, version }))))
    }

    /// As the library says: major times 10000, minor times 100, patch.
    pub fn version(&self) -> usize {
        self.0.version
    }

    /// Describes a product. Cheap; nothing is computed.
    pub fn product(&self, shape: ProductShape) -> Result<Product, Why> {
        let null = ptr::null_mut();
        let mut product = Product {
            library: *self,
            shape,
            desc: null,
            w: null.cast(),
            x: null.cast(),
            y: null.cast(),
        };
        let functions = &self.0.functions;
        let (rows, n, k) = (u64::from(shape.rows), u64::from(shape.n), u64::from(shape.k));
        let wide = if shape.wide { F32 } else { BF16 };
        // The library counts columns first: its matrices are the transposes of ours, and y^T = w * x^T.
        for (at, kind, (first, second)) in [
            (&mut product.w, BF16, (k, n)),
            (&mut product.x, BF16, (k, rows)),
            (&mut product.y, wide, (n, rows)),
        ] {
            // SAFETY: `at` is a valid place for the answer.
            let status =
                unsafe { (functions.layout_create)(at, kind, first, second, first as i64) };
            check("cublasLtMatrixLayoutCreate", status)?;
        }
        // SAFETY: `desc` is a valid place for the answer.
        let status = unsafe { (functions.desc_create)(&mut product.desc, COMPUTE_F32, F32) };
        check("cublasLtMatmulDescCreate", status)?;
        product.set(DescAttribute::CUBLASLT_MATMUL_DESC_TRANSA, &TRANSPOSED)?;
        if shape.bias {
            product.set(DescAttribute::CUBLASLT_MATMUL_DESC_EPILOGUE, &EPILOGUE_BIAS)?;
            product.set(DescAttribute::CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &F32)?;
        }
        Ok(product)
    }
}

/// A described product.
pub struct Product {
    library: Cublaslt,
    shape: ProductShape,
    desc: cublasLtMatmulDesc_t,
    w: cublasLtMatrixLayout_t,
    x: cublasLtMatrixLayout_t,
    y: cublasLtMatrixLayout_t,
}

// SAFETY: descriptors belong to no thread.
unsafe impl Send for Product {}

impl fmt::Debug for Product {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shape.fmt(f)
    }
}

impl Product {
    /// Up to `limit` algorithms that need at most `workspace` bytes, the one that the library thinks best first.
    pub fn algorithms(&self, workspace: u64, limit: usize) -> Result<Vec<Algorithm>, Why> {
        let functions = &self.library.0.functions;
        let mut preference = ptr::null_mut();
        // SAFETY: a valid place for the answer.
        check("cublasLtMatmulPreferenceCreate", unsafe {
            (functions.preference_create)(&mut preference)
        })?;
        let mut found = vec![NOTHING_FOUND; limit];
        let mut count = 0;
        let set = |attribute: PreferenceAttribute, value: *const c_void, bytes| {
            // SAFETY: `value` points to `bytes` bytes, which the call copies.
            unsafe { (functions.preference_set)(preference, attribute as u32, value, bytes) }
        };
        let size = PreferenceAttribute::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
        let scheme = PreferenceAttribute::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK;
        let set = [
            set(size, ptr::from_ref(&workspace).cast(), 8),
            set(scheme, ptr::from_ref(&REDUCTION).cast(), 4),
        ];
        // SAFETY: all descriptors live; `found` has room for `limit` answers.
        let status = unsafe {
            (functions.heuristic)(
                self.library.0.handle,
                self.desc,
                self.w,
                self.x,
                self.y,
                self.y,
                preference,
                limit as c_int,
                found.as_mut_ptr(),
                &mut count,
            )
        };
        // SAFETY: created above, destroyed once.
        let destroyed = unsafe { (functions.preference_destroy)(preference) };
        for status in [set[0], set[1], destroyed] {
            check("cublasLtMatmulPreferenceSetAttribute", status)?;
        }
        found.truncate(usize::try_from(count).unwrap_or(0));
        found.retain(|found| found.state == 0);
        match status {
            0 if !found.is_empty() => Ok(found.iter().map(Algorithm::of).collect()),
            // 15: not supported.
            0 | 15 => Err(Why::NoAlgorithm(self.shape)),
            status => Err(Why::Call { call: "cublasLtMatmulAlgoGetHeuristic", status }),
        }
    }

    /// The algorithm with the workspace that it needs here, or `None` where this library on this device does not take it: what
    /// was read from a file is not trusted.
    pub fn accepts(&self, algorithm: &Algorithm) -> Option<Algorithm> {
        let mut found = NOTHING_FOUND;
        let wanted = cublasLtMatmulAlgo_t { data: algorithm.data };
        // SAFETY: all descriptors live; `found` is a valid place for the answer.
        let status = unsafe {
            let library = &self.library.0;
            (library.functions.check)(
                library.handle,
                self.desc,
                self.w,
                self.x,
                self.y,
                self.y,
                &wanted,
                &mut found,
            )
        };
        (status == 0 && found.state == 0)
            .then_some(Algorithm { data: algorithm.data, workspace: found.workspace as u64 })
    }

    /// Queues the product; a capturing stream records it.
    ///
    /// # Safety
    /// The operands are as the shape says, on the stream's device, 16-byte aligned, and live until the launch has run.
    pub unsafe fn run(
        &self,
        stream: &Stream,
        algorithm: &Algorithm,
        operands: &Operands,
    ) -> Result<(), Why> {
        if self.shape.bias {
            self.set(DescAttribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER, &operands.bias)?;
        }
        let (one, beta) = (1.0_f32, if self.shape.add { 1.0_f32 } else { 0.0 });
        let library = &self.library.0;
        let ProductShape { rows, n, k, .. } = self.shape;
        stream.recorder.borrow_mut().note_product(rows, n, k);
        let y = operands.y as *mut c_void;
        // SAFETY: descriptors, scalars and algorithm live during the call; the operands are the caller's promise.
        let status = unsafe {
            (library.functions.matmul)(
                library.handle,
                self.desc,
                (&raw const one).cast(),
                operands.w as *const c_void,
                self.w,
                operands.x as *const c_void,
                self.x,
                (&raw const beta).cast(),
                y,
                self.y,
                y,
                self.y,
                &cublasLtMatmulAlgo_t { data: algorithm.data },
                operands.workspace.0 as *mut c_void,
                operands.workspace.1 as usize,
                stream.raw().cast(),
            )
        };
        check("cublasLtMatmul", status)
    }

    fn set<T: bytemuck::NoUninit>(&self, attribute: DescAttribute, value: &T) -> Result<(), Why> {
        let value_at = ptr::from_ref(value).cast();
        // SAFETY: the descriptor lives; `value` is read for as many bytes as it has.
        let status = unsafe {
            (self.library.0.functions.desc_set)(
                self.desc,
                attribute as u32,
                value_at,
                size_of::<T>(),
            )
        };
        check("cublasLtMatmulDescSetAttribute", status)
    }
}

impl Drop for Product {
    fn drop(&mut self) {
        let functions = &self.library.0.functions;
        for layout in [self.w, self.x, self.y] {
            if !layout.is_null() {
                // SAFETY: created once, destroyed once.
                unsafe { (functions.layout_destroy)(layout) };
            }
        }
        if !self.desc.is_null() {
            // SAFETY: created once, destroyed once.
            unsafe { (functions.desc_destroy)(self.desc) };
        }
    }
}

impl Algorithm {
    fn of(found: &Found) -> Algorithm {
        Algorithm { data: found.algorithm.data, workspace: found.workspace as u64 }
    }
}

fn check(call: &'static str, status: c_int) -> Result<(), Why> {
    match status {
        0 => Ok(()),
        status => Err(Why::Call { call, status }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_an_answer() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(NAMES[0]), b"no library").unwrap();
        match Cublaslt::open(&[folder.path().to_owned()]) {
            // The loader's own path comes first: a machine may well have one. Without a device it cannot be created.
            Ok(_) => {}
            Err(Why::Missing { tried }) => {
                assert_eq!(tried.len(), 4, "{tried:?}");
                let place = folder.path().join(NAMES[0]).display().to_string();
                assert!(tried[2].starts_with(&format!("{place}: ")), "{tried:?}");
                assert_eq!(tried[2].matches(&place).count(), 1, "{tried:?}");
            }
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn another_major_is_refused_by_its_version_and_our_kernels_stand_in() {
        assert_eq!(known_major(130_201), Ok(()));
        assert_eq!(known_major(120_900), Ok(()));
        let why = known_major(110_804).unwrap_err();
        assert_eq!(why.to_string(), "its version is 11.8, which is neither 12 nor 13");
        let missing = Why::Missing { tried: vec![format!("libcublasLt.so.13: {why}")] };
        assert_eq!(
            missing.to_string(),
            "no cuBLASLt of use (libcublasLt.so.13: its version is 11.8, which is neither 12 nor 13): large products run on this \
             program's own kernels"
        );
    }
}
