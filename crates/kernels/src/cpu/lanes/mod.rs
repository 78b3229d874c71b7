//! Eight `f32` at once, the same bits on every machine.
//!
//! Kernels are written once, generic over [`Lanes`], and run with the best implementation that the processor
//! has. All implementations round alike: every operation is IEEE, and [`Lanes::fma`] rounds once (the portable
//! one calls `mul_add`, which is an instruction on AArch64 and a slow library call on an x86 without FMA). Sums
//! across lanes follow one tree.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod exp;
mod portable;

pub use exp::exp;
use portable::Portable;

/// Lanes of a vector.
pub const LANES: usize = 8;

/// A vector of eight `f32`.
pub trait Lanes: Copy {
    /// All lanes `x`.
    fn splat(x: f32) -> Self;
    /// Lanes from memory.
    fn from_array(x: &[f32; LANES]) -> Self;
    /// Lanes to memory.
    fn to_array(self) -> [f32; LANES];
    /// `self · b + c`, rounded once.
    fn fma(self, b: Self, c: Self) -> Self;
    /// Sum.
    fn add(self, other: Self) -> Self;
    /// Difference.
    fn sub(self, other: Self) -> Self;
    /// Product.
    fn mul(self, other: Self) -> Self;
    /// Quotient.
    fn div(self, other: Self) -> Self;
    /// `self > other ? self : other`; `other` if either is NaN.
    fn max(self, other: Self) -> Self;
    /// `self < other ? self : other`; `other` if either is NaN.
    fn min(self, other: Self) -> Self;
    /// `self < other ? yes : no`
    fn if_less(self, other: Self, yes: Self, no: Self) -> Self;
    /// Lane `i` of `yes` where bit `i` is set, of `no` elsewhere.
    fn select(bits: u8, yes: Self, no: Self) -> Self;
    /// Nearest integer, ties to even, for magnitudes that an `i32` holds.
    fn round(self) -> Self;
    /// `2^self` for whole numbers from -126 to 127.
    fn power_of_two(self) -> Self;

    /// Lane `j` of result `i` is lane `i` of `rows[j]`.
    fn transpose(rows: [Self; LANES]) -> [Self; LANES];

    /// Zero in all lanes.
    #[inline(always)]
    fn zero() -> Self {
        Self::splat(0.0)
    }

    /// Loads from an address.
    ///
    /// # Safety
    /// Eight `f32` must be readable at `from`.
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller's promise; an array of `f32` needs no more alignment than one.
        Self::from_array(unsafe { &*from.cast::<[f32; LANES]>() })
    }

    /// Stores to an address.
    ///
    /// # Safety
    /// Eight `f32` must be writable at `to`.
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { *to.cast::<[f32; LANES]>() = self.to_array() };
    }

    /// The sum of all lanes: `((0+4)+(2+6)) + ((1+5)+(3+7))`.
    #[inline(always)]
    fn sum(self) -> f32 {
        let x = self.to_array();
        ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]))
    }

    /// The largest lane, if none is NaN.
    #[inline(always)]
    fn largest(self) -> f32 {
        let larger = |a: f32, b: f32| if a > b { a } else { b };
        let x = self.to_array();
        let half: [f32; 4] = std::array::from_fn(|i| larger(x[i], x[i + 4]));
        larger(larger(half[0], half[2]), larger(half[1], half[3]))
    }
}

/// Work that is generic over the vector. `run` and all generic functions that it calls must be
/// `#[inline(always)]`, and vectors stay out of closures, which can't be: only what is inlined into the dispatched
/// function is compiled for the processor's vectors.
pub trait Kernel {
    /// What `run` returns.
    type Output;
    /// Does the work.
    fn run<L: Lanes>(self) -> Self::Output;
}

/// Runs a kernel with the best vectors of this processor.
#[inline]
pub fn dispatch<K: Kernel>(kernel: K) -> K::Output {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        // SAFETY: the processor has both features.
        return unsafe { avx2::run(kernel) };
    }
    kernel.run::<Portable>()
}

/// Runs a kernel without vector instructions; the same bits, slowly.
#[cfg(test)]
pub fn dispatch_portable<K: Kernel>(kernel: K) -> K::Output {
    kernel.run::<Portable>()
}

/// Up to eight elements, filled up with zeros.
#[inline(always)]
pub fn padded(tail: &[f32]) -> [f32; LANES] {
    let mut lanes = [0.0; LANES];
    lanes[..tail.len()].copy_from_slice(tail);
    lanes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every operation but `exp` on random lanes.
    #[derive(Clone, Copy)]
    struct All([[f32; LANES]; LANES], u8);

    impl Kernel for All {
        type Output = Vec<[f32; LANES]>;

        #[inline(always)]
        fn run<L: Lanes>(self) -> Vec<[f32; LANES]> {
            let mut rows = [L::zero(); LANES];
            for (row, x) in rows.iter_mut().zip(&self.0) {
                *row = L::from_array(x);
            }
            let [a, b, c, ..] = rows;
            let pairs = [a.add(b), a.sub(b), a.mul(b), a.div(b), a.max(b), a.min(b)];
            let others = [
                a.fma(b, c),
                a.if_less(b, b, c),
                L::select(self.1, a, b),
                a.round(),
                a.round().power_of_two(),
            ];
            let folds = [L::splat(a.sum()), L::splat(a.largest())];
            let mut all = Vec::new();
            for x in pairs
                .into_iter()
                .chain(others)
                .chain(folds)
                .chain(L::transpose(rows))
            {
                all.push(x.to_array());
            }
            all
        }
    }

    #[test]
    fn vectors_and_their_portable_twin_do_the_same() {
        let mut rng = fastrand::Rng::with_seed(2);
        for _ in 0..500 {
            let mut lanes = || std::array::from_fn(|_| rng.f32() * 40.0 - 20.0);
            let rows = std::array::from_fn(|_| lanes());
            let kernel = All(rows, rng.u8(..));
            let bits =
                |all: Vec<[f32; LANES]>| all.into_iter().map(|x| x.map(f32::to_bits)).collect::<Vec<_>>();
            assert_eq!(
                bits(dispatch(kernel)),
                bits(dispatch_portable(kernel)),
                "{rows:?}"
            );
        }
    }
}
