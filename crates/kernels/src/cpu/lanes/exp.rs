//! The exponential function.

use std::f32::consts::LOG2_E;

use super::Lanes;

/// Below this the result is zero: the smallest power of two that is a normal number begins here.
const LOWEST: f32 = -87.33;
/// Above this the result stays at `exp(HIGHEST)`, which is finite.
const HIGHEST: f32 = 88.37;
/// `ln 2` in two parts; the first has few enough bits that its multiples up to 128 are exact.
const LN_2_HIGH: f32 = 0.693_359_4;
const LN_2_LOW: f32 = -2.121_944_4e-4;
/// `1/n!` from `n = 7` down: the remainder is at most `ln 2 / 2`, where the next term is under 6e-9.
const FACTORIALS: [f32; 6] = [
    1.0 / 5040.0,
    1.0 / 720.0,
    1.0 / 120.0,
    1.0 / 24.0,
    1.0 / 6.0,
    1.0 / 2.0,
];

/// `exp(x)` to about one unit in the last place; exactly 1 at 0, exactly 0 below -87.33 and at minus infinity,
/// NaN at NaN.
#[inline(always)]
pub fn exp<L: Lanes>(x: L) -> L {
    // The bound comes first, so that NaN passes.
    let clamped = L::splat(LOWEST).max(L::splat(HIGHEST).min(x));
    let power = clamped.mul(L::splat(LOG2_E)).round();
    let rest = power.fma(L::splat(-LN_2_HIGH), clamped);
    let rest = power.fma(L::splat(-LN_2_LOW), rest);
    let mut sum = L::zero();
    for factor in FACTORIALS {
        sum = sum.fma(rest, L::splat(factor));
    }
    let sum = sum.fma(rest, L::splat(1.0)).fma(rest, L::splat(1.0));
    x.if_less(L::splat(LOWEST), L::zero(), sum.mul(power.power_of_two()))
}

#[cfg(test)]
mod tests {
    use super::super::{Kernel, LANES, dispatch, dispatch_portable};
    use super::*;

    #[derive(Clone, Copy)]
    struct Exp([f32; LANES]);

    impl Kernel for Exp {
        type Output = [f32; LANES];

        #[inline(always)]
        fn run<L: Lanes>(self) -> [f32; LANES] {
            exp(L::from_array(&self.0)).to_array()
        }
    }

    #[test]
    fn exp_is_within_two_units_of_the_last_place() {
        let mut x = -87.3f32;
        while x < 88.3 {
            let result = f64::from(dispatch(Exp([x; LANES]))[3]);
            let exact = f64::from(x).exp();
            assert!(
                (result - exact).abs() < exact * 2.4e-7,
                "exp({x}) is {exact}, not {result}"
            );
            x += 0.0137;
        }
    }

    #[test]
    fn exp_is_exact_where_attention_relies_on_it() {
        let result = dispatch(Exp([
            0.0,
            -0.0,
            f32::NEG_INFINITY,
            -88.0,
            -1e30,
            f32::NAN,
            200.0,
            f32::INFINITY,
        ]));
        assert_eq!(result[..5], [1.0, 1.0, 0.0, 0.0, 0.0]);
        assert!(result[5].is_nan());
        assert!(result[6].is_finite() && result[6] > 1e38 && result[7] == result[6]);
    }

    #[test]
    fn vectors_and_their_portable_twin_have_the_same_bits() {
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..2000 {
            let kernel = Exp(std::array::from_fn(|_| rng.f32() * 200.0 - 100.0));
            assert_eq!(
                dispatch(kernel).map(f32::to_bits),
                dispatch_portable(kernel).map(f32::to_bits),
                "{:?}",
                kernel.0
            );
        }
    }
}
