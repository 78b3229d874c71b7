//! Times the algorithms among which matrix products of Llama 3.1 8B are tuned, and says whose bits are the same.
//! Needs a CUDA device: `cargo run --release -p medley-kernels --features cuda --example products`.

#[cfg(feature = "cuda")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use medley_kernels::cuda::gemm::{Products, Target, Weight};
    use medley_kernels::cuda::{Device, bf16};

    const LAYERS: usize = 4;
    const ROWS: usize = 8192;
    let device = Device::open(0)?;
    let mut products = Products::new(&device)?;
    for (outputs, inputs) in [(6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336)] {
        let layer = |seed| -> Result<Weight, medley_kernels::cuda::CudaError> {
            let mut values = device.zeros(outputs * inputs)?;
            device.fill(&mut values, seed, 0.02)?;
            Ok(Weight {
                values,
                outputs,
                inputs,
            })
        };
        let weights = (1..=LAYERS as u64).map(layer).collect::<Result<Vec<_>, _>>()?;
        let weights: Vec<_> = weights.iter().map(|weight| (weight, None)).collect();
        let mut x = device.zeros(ROWS * inputs)?;
        let start = std::time::Instant::now();
        let tried = match outputs == 4096 {
            true => products.tune(
                &device,
                &weights,
                &mut x,
                Target::Sum(&mut device.zeros(ROWS * outputs)?),
            )?,
            false => {
                let mut out = device.zeros::<bf16>(ROWS * outputs)?;
                products.tune(&device, &weights, &mut x, Target::Bf16(&mut out))?
            }
        };
        println!(
            "{outputs} outputs, {inputs} inputs: tuned in {:.2?}",
            start.elapsed()
        );
        for one in tried {
            let same = one
                .same
                .map_or("", |same| if same { "  chosen" } else { "  OTHER BITS" });
            println!(
                "{:6} rows {:9.1} us  {}{same}",
                one.rows, one.microseconds, one.algorithm
            );
        }
    }
    Ok(())
}

#[cfg(not(feature = "cuda"))]
fn main() {
    eprintln!("this example needs the feature `cuda`");
}
