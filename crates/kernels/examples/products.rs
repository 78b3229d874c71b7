//! Times every algorithm that cuBLASLt advises, on the matrices of Llama 3.1 8B: which one to take for any number of rows.
//! Needs a CUDA device: `cargo run --release -p medley-kernels --features cuda --example products`.

#[cfg(feature = "cuda")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use medley_kernels::cuda::Device;
    use medley_kernels::cuda::gemm::{Products, Weight};

    let device = Device::open(0)?;
    let mut products = Products::new(&device)?;
    let rows = [1, 16, 64, 128, 256, 512, 884, 2048, 8192];
    println!("{:44} {}", "", rows.map(|rows| format!("{rows:>8}")).concat());
    for (outputs, inputs) in [(6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336)] {
        let mut values = device.zeros(outputs * inputs)?;
        device.fill(&mut values, 1, 0.02)?;
        let weight = Weight {
            values,
            outputs,
            inputs,
        };
        for advised in [64, 256, 1024, 4096] {
            println!("{outputs} outputs, {inputs} inputs, advised for {advised} rows: microseconds");
            for found in products.survey(&device, &weight, advised, &rows)? {
                let times = found
                    .times
                    .iter()
                    .map(|time| time.map_or_else(|| "       -".to_owned(), |ms| format!("{:8.1}", ms * 1e3)));
                println!("{:44} {}", found.algorithm, times.collect::<String>());
            }
        }
    }
    Ok(())
}

#[cfg(not(feature = "cuda"))]
fn main() {
    eprintln!("this example needs the feature `cuda`");
}
