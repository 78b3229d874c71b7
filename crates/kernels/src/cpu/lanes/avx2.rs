//! Lanes as an AVX2 register.
//!
//! The methods are safe to name but reach their instructions unchecked: values of [`Avx2`] are made only inside
//! [`run`], which [`super::dispatch`] calls after it has asked the processor.

use std::arch::x86_64::*;

use super::{Kernel, LANES, Lanes};

/// Eight `f32` in a register.
#[derive(Clone, Copy)]
pub struct Avx2(__m256);

/// Runs a kernel compiled for AVX2 and FMA.
///
/// # Safety
/// The processor must have both.
#[target_feature(enable = "avx2,fma")]
pub unsafe fn run<K: Kernel>(kernel: K) -> K::Output {
    kernel.run::<Avx2>()
}

/// A method of one intrinsic.
macro_rules! lanes {
    ($($name:ident($a:ident $(, $more:ident)*) = $instruction:expr;)*) => {$(
        #[inline(always)]
        fn $name($a $(, $more: Self)*) -> Self {
            // SAFETY: runs under `run`, on a processor with AVX2 and FMA.
            Self(unsafe { $instruction })
        }
    )*};
}

impl Lanes for Avx2 {
    #[inline(always)]
    fn splat(x: f32) -> Self {
        // SAFETY: runs under `run`.
        Self(unsafe { _mm256_set1_ps(x) })
    }

    #[inline(always)]
    fn from_array(x: &[f32; LANES]) -> Self {
        // SAFETY: runs under `run`; the array is as long as the register.
        Self(unsafe { _mm256_loadu_ps(x.as_ptr()) })
    }

    #[inline(always)]
    fn to_array(self) -> [f32; LANES] {
        let mut x = [0.0; LANES];
        // SAFETY: runs under `run`; the array is as long as the register.
        unsafe { _mm256_storeu_ps(x.as_mut_ptr(), self.0) };
        x
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: runs under `run`; the caller's promise.
        unsafe { _mm256_storeu_ps(to, self.0) };
    }

    lanes! {
        fma(self, b, c) = _mm256_fmadd_ps(self.0, b.0, c.0);
        add(self, other) = _mm256_add_ps(self.0, other.0);
        sub(self, other) = _mm256_sub_ps(self.0, other.0);
        mul(self, other) = _mm256_mul_ps(self.0, other.0);
        div(self, other) = _mm256_div_ps(self.0, other.0);
        max(self, other) = _mm256_max_ps(self.0, other.0);
        min(self, other) = _mm256_min_ps(self.0, other.0);
        if_less(self, other, yes, no) =
            _mm256_blendv_ps(no.0, yes.0, _mm256_cmp_ps::<_CMP_LT_OQ>(self.0, other.0));
        round(self) = _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(self.0);
        power_of_two(self) = _mm256_castsi256_ps(_mm256_slli_epi32::<23>(
            _mm256_add_epi32(_mm256_cvtps_epi32(self.0), _mm256_set1_epi32(127)),
        ));
    }

    #[inline(always)]
    fn select(bits: u8, yes: Self, no: Self) -> Self {
        // SAFETY: runs under `run`.
        Self(unsafe {
            let lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
            let set = _mm256_and_si256(_mm256_set1_epi32(i32::from(bits)), lane);
            _mm256_blendv_ps(no.0, yes.0, _mm256_castsi256_ps(_mm256_cmpeq_epi32(set, lane)))
        })
    }

    #[inline(always)]
    fn transpose(rows: [Self; LANES]) -> [Self; LANES] {
        let [r0, r1, r2, r3, r4, r5, r6, r7] = rows;
        // SAFETY: runs under `run`.
        unsafe {
            // Pairs of elements of two rows, fours of four rows, then eights; halves of a register stay apart
            // until the last step.
            let (ab, hi_ab) = (_mm256_unpacklo_ps(r0.0, r1.0), _mm256_unpackhi_ps(r0.0, r1.0));
            let (cd, hi_cd) = (_mm256_unpacklo_ps(r2.0, r3.0), _mm256_unpackhi_ps(r2.0, r3.0));
            let (ef, hi_ef) = (_mm256_unpacklo_ps(r4.0, r5.0), _mm256_unpackhi_ps(r4.0, r5.0));
            let (gh, hi_gh) = (_mm256_unpacklo_ps(r6.0, r7.0), _mm256_unpackhi_ps(r6.0, r7.0));
            let (x0, y0) = (
                _mm256_shuffle_ps::<0x44>(ab, cd),
                _mm256_shuffle_ps::<0x44>(ef, gh),
            );
            let (x1, y1) = (
                _mm256_shuffle_ps::<0xee>(ab, cd),
                _mm256_shuffle_ps::<0xee>(ef, gh),
            );
            let (x2, y2) = (
                _mm256_shuffle_ps::<0x44>(hi_ab, hi_cd),
                _mm256_shuffle_ps::<0x44>(hi_ef, hi_gh),
            );
            let (x3, y3) = (
                _mm256_shuffle_ps::<0xee>(hi_ab, hi_cd),
                _mm256_shuffle_ps::<0xee>(hi_ef, hi_gh),
            );
            [
                Self(_mm256_permute2f128_ps::<0x20>(x0, y0)),
                Self(_mm256_permute2f128_ps::<0x20>(x1, y1)),
                Self(_mm256_permute2f128_ps::<0x20>(x2, y2)),
                Self(_mm256_permute2f128_ps::<0x20>(x3, y3)),
                Self(_mm256_permute2f128_ps::<0x31>(x0, y0)),
                Self(_mm256_permute2f128_ps::<0x31>(x1, y1)),
                Self(_mm256_permute2f128_ps::<0x31>(x2, y2)),
                Self(_mm256_permute2f128_ps::<0x31>(x3, y3)),
            ]
        }
    }
}
