// Measures each CPU kernel on one thread. Matrix products report GFLOP/s, all others GB/s, counting
// bytes that must be read and written once. Run `kernels_bench --benchmark_filter=gemm`; on a busy
// machine take the best of several --benchmark_repetitions. Names end in the instruction set, or
// onednn. Longer than other files, because it lists the sizes of every kernel.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_device.h"
#include "kernels/cpu/cpu_queue.h"

namespace foretrain {
namespace {

// Device memory of `floats` values between -1 and 1, none subnormal. Allocated at the first get().
// `positive` makes all values positive.
class Buffer {
 public:
  explicit Buffer(std::int64_t floats, bool positive = false)
      : floats_(floats), positive_(positive) {}

  float* get() {
    if (data_ == nullptr) {
      Make(floats_);
    }
    return data_.get();
  }

 private:
  // A linear congruential generator: fast, and the same in every run.
  void Make(std::int64_t floats) {
    char why[256] = "";
    void* pointer = nullptr;
    if (CpuDeviceApi().allocate(0, floats * std::int64_t{sizeof(float)}, &pointer, why,
                                sizeof why) != FT_OK) {
      std::fprintf(stderr, "%s\n", why);
      std::exit(3);
    }
    data_.reset(static_cast<float*>(pointer));
    std::uint32_t state = 1;
    for (std::int64_t i = 0; i < floats; ++i) {
      state = state * 1664525U + 1013904223U;
      const float x = static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-31F;
      data_.get()[i] = positive_ ? x * x + 0.01F : x;
    }
  }

  std::int64_t floats_;
  bool positive_;
  std::unique_ptr<float, FreeDeleter> data_;
};

struct QueueDestroyer {
  void operator()(FtQueue* queue) const { CpuDeviceApi().queue_destroy(queue); }
};

struct Variant {
  std::string name;
  const VectorKernels* kernels;
  GemmBackend gemm;
};

enum class Unit { kFlops, kBytes };

// Registers `work`, which executes `amount` FLOP or bytes per call.
void Register(const Variant& variant, const std::string& name, Unit unit, double amount,
              const std::function<FtStatus(FtQueue*)>& work) {
  benchmark::RegisterBenchmark((name + "/" + variant.name).c_str(), [=](benchmark::State& state) {
    const std::unique_ptr<FtQueue, QueueDestroyer> queue(
        MakeCpuQueue(*variant.kernels, variant.gemm));
    // Allocates the buffers and lets oneDNN compile its kernels (30 ms) before timing starts.
    bool failed = work(queue.get()) != FT_OK;
    for (auto _ : state) {
      failed = failed || work(queue.get()) != FT_OK;
    }
    if (failed) {
      state.SkipWithError(CpuDeviceApi().queue_error(queue.get()));
    }
    const double total = amount * static_cast<double>(state.iterations());
    state.counters[unit == Unit::kFlops ? "GFLOP/s" : "GB/s"] =
        benchmark::Counter(total * 1e-9, benchmark::Counter::kIsRate);
  })->Unit(benchmark::kMicrosecond);
}

// Names a product by its sizes and by which operands are transposed (N or T).
void RegisterGemm(const Variant& variant, std::int64_t m, std::int64_t n, std::int64_t k,
                  bool trans_a, bool trans_b) {
  const std::string name = "gemm/" + std::to_string(m) + "x" + std::to_string(n) + "x" +
                           std::to_string(k) + "/" + (trans_a ? "T" : "N") + (trans_b ? "T" : "N");
  const auto a = std::make_shared<Buffer>(m * k);
  const auto b = std::make_shared<Buffer>(k * n);
  const auto c = std::make_shared<Buffer>(m * n);
  const double flops =
      2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  Register(variant, name, Unit::kFlops, flops, [=](FtQueue* queue) {
    FtGemm g{};
    g.a = a->get(), g.b = b->get(), g.c = c->get();
    g.m = m, g.n = n, g.k = k;
    g.lda = trans_a ? m : k, g.ldb = trans_b ? k : n, g.ldc = n;
    g.trans_a = trans_a, g.trans_b = trans_b, g.scale = 1.0F;
    return CpuDeviceApi().gemm(queue, &g);
  });
}

// Powers of two show the peak; the sizes of a model show what training gets; odd sizes show the
// cost of edges.
void RegisterGemms(const Variant& variant) {
  for (const std::int64_t size : {64, 128, 256, 512, 1024, 2048}) {
    RegisterGemm(variant, size, size, size, false, true);
  }
  // GPT-2 124M, 512 tokens: forward, input gradient and weight gradient of the wide MLP layer; then
  // sizes that fit no tile, and small ones.
  RegisterGemm(variant, 512, 3072, 768, false, true);
  RegisterGemm(variant, 512, 768, 3072, false, false);
  RegisterGemm(variant, 3072, 768, 512, true, false);
  RegisterGemm(variant, 511, 769, 767, false, true);
  RegisterGemm(variant, 32, 256, 256, false, true);
  RegisterGemm(variant, 256, 128, 128, false, true);
}

// Tensors of one causal attention of `heads` heads over one sequence, and the calls that read them.
struct AttentionBench {
  AttentionBench(std::int64_t sequence_, std::int32_t head_dim_, std::int32_t heads_)
      : sequence(sequence_), head_dim(head_dim_), heads(heads_) {}

  // Fields that forward and backward share.
  template <class Call>
  Call Common() {
    Call g{};
    g.q = qkv.get();
    g.k = qkv.get() + width;
    g.v = qkv.get() + 2 * width;
    g.out = out.get();
    g.lse = lse.get();
    g.batch = 1;
    g.sequence = sequence;
    g.row_stride = 3 * width;
    g.heads = g.kv_heads = heads;
    g.head_dim = head_dim;
    g.dtype = FT_F32;
    return g;
  }
  FtStatus Forward(FtQueue* queue) {
    const auto g = Common<FtAttentionForward>();
    return CpuDeviceApi().attention_forward(queue, &g);
  }
  FtStatus Backward(FtQueue* queue) {
    if (!ready) {  // out and lse of a real forward pass
      Forward(queue);
      ready = true;
    }
    auto g = Common<FtAttentionBackward>();
    g.dout = dout.get();
    g.dq = grads.get();
    g.dk = grads.get() + width;
    g.dv = grads.get() + 2 * width;
    return CpuDeviceApi().attention_backward(queue, &g);
  }

  std::int64_t sequence;
  std::int32_t head_dim, heads;
  std::int64_t width = std::int64_t{heads} * head_dim;
  Buffer qkv{sequence * 3 * width}, grads{sequence * 3 * width};
  Buffer out{sequence * width}, dout{sequence * width}, lse{sequence * heads};
  bool ready = false;
};

// FLOP of causal attention per head: half of 4 T^2 d forward, half of 10 T^2 d backward (five
// products).
void RegisterAttention(const Variant& variant, std::int64_t sequence, std::int32_t head_dim,
                       std::int32_t heads) {
  const auto bench = std::make_shared<AttentionBench>(sequence, head_dim, heads);
  const std::string size = std::to_string(sequence) + "x" + std::to_string(head_dim);
  const double pair =
      static_cast<double>(sequence) * static_cast<double>(sequence) * head_dim * heads;
  Register(variant, "attention_forward/" + size, Unit::kFlops, 2.0 * pair,
           [bench](FtQueue* queue) { return bench->Forward(queue); });
  Register(variant, "attention_backward/" + size, Unit::kFlops, 5.0 * pair,
           [bench](FtQueue* queue) { return bench->Backward(queue); });
}

// Tensors of rows x cols for streaming kernels. `rows` is 64 to fit a cache or 16,384 to exceed
// all.
struct Stream {
  const Variant& variant;
  std::int64_t rows;
  std::int64_t cols;
  std::string size = "/" + std::to_string(rows) + "x" + std::to_string(cols);
  double tensor = 4.0 * static_cast<double>(rows * cols);  // bytes
  std::vector<std::shared_ptr<Buffer>> x = {};             // the first holds twice the elements
  std::shared_ptr<Buffer> weight = std::make_shared<Buffer>(cols);
  std::shared_ptr<Buffer> mean = std::make_shared<Buffer>(rows);
  std::shared_ptr<Buffer> rstd = std::make_shared<Buffer>(rows);
};

// GB/s counts tensors read and written once, so copy is the reference for the others.
void RegisterElementwise(const Stream& stream) {
  const Variant& variant = stream.variant;
  const std::int64_t rows = stream.rows, cols = stream.cols;
  const std::string& size = stream.size;
  const double tensor = stream.tensor;
  const auto x = stream.x;
  const auto mean = stream.mean;
  const std::int64_t n = rows * cols;
  const FtDeviceApi& api = CpuDeviceApi();
  Register(variant, "copy" + size, Unit::kBytes, 2 * tensor,
           [=, &api](FtQueue* q) { return api.copy(q, x[1]->get(), x[0]->get(), 4 * n); });
  Register(variant, "add" + size, Unit::kBytes, 3 * tensor, [=, &api](FtQueue* q) {
    const FtAdd g{x[0]->get(), x[1]->get(), nullptr, x[2]->get(), rows, cols, FT_F32, FT_F32};
    return api.add(q, &g);
  });
  Register(variant, "gelu_forward" + size, Unit::kBytes, 2 * tensor, [=, &api](FtQueue* q) {
    const FtGelu g{x[0]->get(), nullptr, x[2]->get(), n, FT_F32, FT_GELU_TANH};
    return api.gelu_forward(q, &g);
  });
  Register(variant, "gelu_backward" + size, Unit::kBytes, 3 * tensor, [=, &api](FtQueue* q) {
    const FtGelu g{x[0]->get(), x[1]->get(), x[2]->get(), n, FT_F32, FT_GELU_TANH};
    return api.gelu_backward(q, &g);
  });
  Register(variant, "swiglu_forward" + size, Unit::kBytes, 3 * tensor, [=, &api](FtQueue* q) {
    const FtSwiglu g{x[0]->get(), nullptr, x[1]->get(), rows, cols, FT_F32, FT_GATE_SILU};
    return api.swiglu_forward(q, &g);
  });
  Register(variant, "squared_norm" + size, Unit::kBytes, tensor, [=, &api](FtQueue* q) {
    const FtSquaredNorm g{x[1]->get(), mean->get(), n, 0, FT_F32};
    return api.squared_norm(q, &g);
  });
  Register(variant, "sum_ranks_of_4" + size, Unit::kBytes, 5 * tensor, [=, &api](FtQueue* q) {
    const void* sources[4] = {x[0]->get(), x[1]->get(), x[2]->get(), x[3]->get()};
    const FtSumRanks g{sources, x[4]->get(), n, 4, 0, FT_F32};
    return api.sum_ranks(q, &g);
  });
}

// Kernels that reduce or normalize rows.
void RegisterRowwise(const Stream& stream) {
  const Variant& variant = stream.variant;
  const std::int64_t rows = stream.rows, cols = stream.cols;
  const std::string& size = stream.size;
  const double tensor = stream.tensor;
  const auto x = stream.x;
  const auto weight = stream.weight, mean = stream.mean, rstd = stream.rstd;
  const FtDeviceApi& api = CpuDeviceApi();
  Register(variant, "norm_forward" + size, Unit::kBytes, 2 * tensor, [=, &api](FtQueue* q) {
    const FtNormForward g{x[1]->get(), weight->get(), weight->get(), x[2]->get(), mean->get(),
                          rstd->get(), rows,          cols,          1e-5F,       0,
                          FT_F32,      FT_F32};
    return api.norm_forward(q, &g);
  });
  Register(variant, "norm_backward_input" + size, Unit::kBytes, 4 * tensor, [=, &api](FtQueue* q) {
    const FtNormBackwardInput g{x[1]->get(), x[2]->get(), weight->get(), mean->get(),
                                rstd->get(), x[3]->get(), x[4]->get(),   rows,
                                cols,        0,           FT_F32,        FT_F32};
    return api.norm_backward_input(q, &g);
  });
  Register(variant, "norm_backward_weight" + size, Unit::kBytes, 2 * tensor, [=, &api](FtQueue* q) {
    const FtNormBackwardWeight g{
        x[1]->get(), x[2]->get(), mean->get(), rstd->get(), weight->get(), weight->get(),
        rows,        cols,        0,           0,           FT_F32,        FT_F32};
    return api.norm_backward_weight(q, &g);
  });
  Register(variant, "bias_grad" + size, Unit::kBytes, tensor, [=, &api](FtQueue* q) {
    const FtBiasGrad g{x[1]->get(), weight->get(), rows, cols, 0, FT_F32, FT_F32};
    return api.bias_grad(q, &g);
  });
  Register(variant, "rope" + size, Unit::kBytes, 2 * tensor, [=, &api](FtQueue* q) {
    FtRope g{};
    g.data = x[3]->get();
    g.rows = g.sequence = rows;
    g.row_stride = cols;
    g.heads = static_cast<std::int32_t>(cols / 64);
    g.head_dim = 64;
    g.theta = 10000.0F;
    return api.rope(q, &g);
  });
}

// The first buffer is twice as large for gated kernels, which read two halves.
void RegisterStreams(const Variant& variant, std::int64_t rows, std::int64_t cols) {
  Stream stream{variant, rows, cols};
  for (int i = 0; i < 5; ++i) {
    stream.x.push_back(std::make_shared<Buffer>(i == 0 ? 2 * rows * cols : rows * cols));
  }
  RegisterElementwise(stream);
  RegisterRowwise(stream);
}

// One AdamW update. Moments take 4, 2 or 1 byte each, according to `moments`.
void RegisterAdamW(const Variant& variant, std::int64_t n, FtDtype moments, const char* name) {
  std::vector<std::shared_ptr<Buffer>> x;
  x.reserve(6);
  for (int i = 0; i < 6; ++i) {
    x.push_back(std::make_shared<Buffer>(n, /*positive=*/i == 3));
  }
  const double size = moments == FT_F32 ? 4 : moments == FT_BF16 ? 2 : 1;
  Register(variant, std::string(name) + "/" + std::to_string(n), Unit::kBytes,
           (12.0 + 4.0 * size) * static_cast<double>(n), [=](FtQueue* q) {
             FtAdamW g{};
             g.param = x[0]->get();
             g.grad = x[1]->get();
             g.moment1 = x[2]->get();
             g.moment2 = x[3]->get();
             g.absmax1 = x[4]->get();
             g.absmax2 = x[5]->get();
             g.elements = n;
             g.decayed = n / 2;
             g.step = 10;
             g.lr = 1e-3F;
             g.beta1 = 0.9F;
             g.beta2 = 0.95F;
             g.epsilon = 1e-8F;
             g.weight_decay = 0.1F;
             g.max_norm = 1.0F;
             g.moments = moments;
             g.dtype = FT_F32;
             return CpuDeviceApi().adamw(q, &g);
           });
}

// Bytes count the fp32 side and the codes, not the scales.
void RegisterQuantize(const Variant& variant, std::int64_t n, FtDtype format, const char* name) {
  const auto x = std::make_shared<Buffer>(n);
  const auto sent = std::make_shared<Buffer>(n);
  const std::string size = std::string(name) + "/" + std::to_string(n);
  const double bytes = (4.0 + (format == FT_BF16 ? 2.0 : 1.0)) * static_cast<double>(n);
  Register(variant, "quantize_" + size, Unit::kBytes, bytes, [=](FtQueue* q) {
    const FtQuantize g{x->get(), sent->get(), n, 1, format, FT_F32};
    return CpuDeviceApi().quantize(q, &g);
  });
  Register(variant, "dequantize_" + size, Unit::kBytes, bytes, [=](FtQueue* q) {
    const FtQuantize g{sent->get(), x->get(), n, 1, format, FT_F32};
    return CpuDeviceApi().dequantize(q, &g);
  });
}

// The backward writes gradients over the logits, so it moves each element twice.
void RegisterCrossEntropy(const Variant& variant, std::int64_t rows, std::int64_t vocab) {
  const auto logits = std::make_shared<Buffer>(rows * vocab);
  const auto lse = std::make_shared<Buffer>(rows);
  const auto loss = std::make_shared<Buffer>(1);
  const auto targets =
      std::make_shared<std::vector<std::int32_t>>(static_cast<std::size_t>(rows), 7);
  const std::string size = "/" + std::to_string(rows) + "x" + std::to_string(vocab);
  const double tensor = 4.0 * static_cast<double>(rows * vocab);
  Register(variant, "cross_entropy_forward" + size, Unit::kBytes, tensor, [=](FtQueue* q) {
    const FtCrossEntropyForward g{
        logits->get(), targets->data(), lse->get(), loss->get(), rows, vocab, 1.0F, 0, FT_F32, 0};
    return CpuDeviceApi().cross_entropy_forward(q, &g);
  });
  Register(variant, "cross_entropy_backward" + size, Unit::kBytes, 2 * tensor, [=](FtQueue* q) {
    const FtCrossEntropyBackward g{logits->get(), targets->data(), lse->get(), rows,   vocab, 0, 0,
                                   1.0F,          FT_F32,          0.0F,       nullptr};
    return CpuDeviceApi().cross_entropy_backward(q, &g);
  });
}

// Every instruction set of this processor runs the same benchmarks, so that names compare line by
// line. oneDNN has GEMM alone.
void RegisterAll() {
  std::vector<Variant> variants;
  const UsableVectorKernels usable = FindUsableVectorKernels();
  variants.reserve(static_cast<std::size_t>(usable.count));
  for (int i = 0; i < usable.count; ++i) {
    variants.push_back({usable.tables[i]->name, usable.tables[i], GemmBackend::kBuiltIn});
  }
  for (const Variant& variant : variants) {
    RegisterGemms(variant);
    for (const std::int64_t sequence : {128, 256, 512, 1024, 2048}) {
      RegisterAttention(variant, sequence, 64, 4);
    }
    RegisterAttention(variant, 1024, 128, 2);
    RegisterStreams(variant, 64, 768);
    RegisterStreams(variant, 16'384, 768);
    RegisterAdamW(variant, 1 << 15, FT_F32, "adamw");
    RegisterAdamW(variant, 1 << 15, FT_BF16, "adamw_bf16");
    RegisterAdamW(variant, 1 << 15, FT_I8, "adamw_int8");
    RegisterQuantize(variant, 1 << 15, FT_BF16, "bf16");
    RegisterQuantize(variant, 1 << 15, FT_FP8, "fp8");
    RegisterQuantize(variant, 1 << 15, FT_I8, "int8");
    RegisterAdamW(variant, 1 << 24, FT_F32, "adamw");
    RegisterAdamW(variant, 1 << 24, FT_BF16, "adamw_bf16");
    RegisterAdamW(variant, 1 << 24, FT_I8, "adamw_int8");
    RegisterQuantize(variant, 1 << 24, FT_BF16, "bf16");
    RegisterQuantize(variant, 1 << 24, FT_FP8, "fp8");
    RegisterQuantize(variant, 1 << 24, FT_I8, "int8");
    RegisterCrossEntropy(variant, 64, 50'257);
  }
  if (HasGemmBackend(GemmBackend::kOneDnn)) {
    RegisterGemms({"onednn", usable.tables[0], GemmBackend::kOneDnn});
  }
}

}  // namespace
}  // namespace foretrain

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
    return 2;
  }
  foretrain::RegisterAll();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
