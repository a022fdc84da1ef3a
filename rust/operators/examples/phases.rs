use std::sync::Arc;
use std::time::Instant;
use tidegate_operators::driver::Driver;
use tidegate_operators::interval_join::*;
fn main() {
    let n = 1_000_000usize;
    let a: Vec<String> = std::env::args().collect();
    let k: u64 = a[1].parse().unwrap();
    let threads: usize = a[2].parse().unwrap();
    let batch: usize = a[3].parse().unwrap();
    let mut st = 42u64;
    let mut rnd = move || {
        st = st.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = st;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    let mut side = || {
        let mut t = 0i64;
        let ts: Vec<i64> = (0..n)
            .map(|_| {
                t += (rnd() % 2000) as i64;
                t
            })
            .collect();
        let ks: Vec<u32> = (0..n).map(|_| (rnd() % k) as u32).collect();
        (ts, ks)
    };
    let (l, r) = (side(), side());
    let up = 2000 * k as i64;
    let iv = Interval { lower: Some(-up), upper: Some(up), closed: Closed::Both };
    for _ in 0..8 {
        let d = Driver::new(threads, Default::default());
        let t0 = Instant::now();
        let m = Arc::new(
            interval_join(
                Side { ts: &l.0, keys: Some(&l.1) },
                Side { ts: &r.0, keys: Some(&r.1) },
                k as usize,
                &iv,
                &d,
            )
            .unwrap(),
        );
        let t1 = Instant::now();
        let o = Output::new(m, How::Inner, &d).unwrap();
        let t2 = Instant::now();
        let s: Vec<u64> =
            d.map(o.cut(batch), |range| o.list(range, |p| p.left().len() as u64 + p.right()[0] as u64)).unwrap();
        let t3 = Instant::now();
        let cols: Vec<Vec<u64>> = (0..8).map(|c| (0..n as u64).map(|i| i * c).collect()).collect();
        let t4 = Instant::now();
        let _: Vec<u64> = d
            .map_with(
                o.cut(batch),
                || vec![0u64; 8 * batch],
                |slab, range| {
                    o.list(range, |p| {
                        for c in 0..8 {
                            let src = &cols[c][..];
                            let idx = if c < 4 { p.left() } else { p.right() };
                            let out = &mut slab[c * batch..][..idx.len()];
                            for (o, &i) in out.iter_mut().zip(idx) {
                                *o = src[i as usize];
                            }
                        }
                        slab[0]
                    })
                },
            )
            .unwrap();
        let t5 = Instant::now();
        let _: Vec<u64> = d
            .map_with(
                o.cut(batch),
                || vec![0u64; 8 * batch],
                |slab, range| {
                    o.list(range, |p| {
                        for c in 0..8 {
                            let src = &cols[c][..];
                            let idx = if c < 4 { p.left() } else { p.right() };
                            let out = &mut slab[c * batch..][..idx.len()];
                            unsafe { gather(src, idx, out) }
                        }
                        slab[0]
                    })
                },
            )
            .unwrap();
        let t6 = Instant::now();
        println!("list+gather {:?} avx512 {:?}", t5 - t4, t6 - t5);
        println!("match {:?} output {:?} list {:?} rows {} {}", t1 - t0, t2 - t1, t3 - t2, o.rows(), s.len());
    }
}

#[target_feature(enable = "avx512f,avx512vl")]
unsafe fn gather(src: &[u64], idx: &[u32], out: &mut [u64]) {
    use std::arch::x86_64::*;
    let n = idx.len() / 8 * 8;
    let mut i = 0;
    while i < n {
        unsafe {
            let v = _mm256_loadu_si256(idx.as_ptr().add(i).cast());
            let g = _mm512_i32gather_epi64::<8>(v, src.as_ptr().cast());
            _mm512_storeu_si512(out.as_mut_ptr().add(i).cast(), g);
        }
        i += 8;
    }
    for j in n..idx.len() {
        out[j] = src[idx[j] as usize];
    }
}
