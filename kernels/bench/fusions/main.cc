// Measures the gain of fusing two ops. It runs two kernels one after the other, over the whole
// tensor and over a few rows at a time. In the second case the second kernel reads from the cache.
// That is the most a fused kernel could save here, because the backward needs both results.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_device.h"

namespace foretrain {
namespace {

struct Sizes {
  std::int64_t rows, in, out;  // sizes of a linear
};

// The same pseudo-random values between -1 and 1 in every run.
std::vector<float> Made(std::int64_t floats) {
  std::vector<float> values(static_cast<std::size_t>(floats));
  std::uint32_t state = 1;
  for (float& value : values) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-31F;
  }
  return values;
}

using Queue = std::unique_ptr<FtQueue, void (*)(FtQueue*)>;
// The queue that `train` uses: the fastest instruction set, oneDNN if it was built in.
Queue MakeQueue() {
  FtQueue* queue = nullptr;
  char why[256] = "";
  CpuDeviceApi().queue_create(0, &queue, why, sizeof why);
  return {queue, CpuDeviceApi().queue_destroy};
}

// y = x w^T, then GELU; `chunk` rows at a time.
void GemmGelu(benchmark::State& state, Sizes s, std::int64_t chunk) {
  const FtDeviceApi& api = CpuDeviceApi();
  const Queue queue = MakeQueue();
  const auto x = Made(s.rows * s.in), w = Made(s.out * s.in), bias = Made(s.out);
  auto up = Made(s.rows * s.out), activated = Made(s.rows * s.out);
  for (auto _ : state) {
    for (std::int64_t row = 0; row < s.rows; row += chunk) {
      float* const out = up.data() + row * s.out;
      FtGemm gemm{};
      gemm.a = x.data() + row * s.in, gemm.b = w.data(), gemm.bias = bias.data(), gemm.c = out;
      gemm.m = chunk, gemm.n = s.out, gemm.k = s.in;
      gemm.lda = s.in, gemm.ldb = s.in, gemm.ldc = s.out;
      gemm.trans_b = 1, gemm.scale = 1.0F;
      const FtGelu gelu{out,           nullptr, activated.data() + row * s.out,
                        chunk * s.out, FT_F32,  FT_GELU_TANH};
      if (api.gemm(queue.get(), &gemm) != FT_OK || api.gelu_forward(queue.get(), &gelu) != FT_OK) {
        state.SkipWithError(api.queue_error(queue.get()));
      }
    }
  }
}

// dx = dy w, then the gradient of GELU; `chunk` rows at a time.
void GemmGeluBackward(benchmark::State& state, Sizes s, std::int64_t chunk) {
  const FtDeviceApi& api = CpuDeviceApi();
  const Queue queue = MakeQueue();
  const auto dy = Made(s.rows * s.in), w = Made(s.in * s.out), up = Made(s.rows * s.out);
  auto d_activated = Made(s.rows * s.out), d_up = Made(s.rows * s.out);
  for (auto _ : state) {
    for (std::int64_t row = 0; row < s.rows; row += chunk) {
      float* const out = d_activated.data() + row * s.out;
      FtGemm gemm{};
      gemm.a = dy.data() + row * s.in, gemm.b = w.data(), gemm.c = out;
      gemm.m = chunk, gemm.n = s.out, gemm.k = s.in;
      gemm.lda = s.in, gemm.ldb = s.out, gemm.ldc = s.out;
      gemm.scale = 1.0F;
      const FtGelu gelu{up.data() + row * s.out, out,    d_up.data() + row * s.out,
                        chunk * s.out,           FT_F32, FT_GELU_TANH};
      if (api.gemm(queue.get(), &gemm) != FT_OK || api.gelu_backward(queue.get(), &gelu) != FT_OK) {
        state.SkipWithError(api.queue_error(queue.get()));
      }
    }
  }
}

// A residual addition and the norm that follows it, as two kernels or as the fused op of --fuse.
void AddNorm(benchmark::State& state, std::int64_t rows, std::int64_t cols, bool fused) {
  const FtDeviceApi& api = CpuDeviceApi();
  const Queue queue = MakeQueue();
  const auto a = Made(rows * cols), b = Made(rows * cols), weight = Made(cols);
  auto sum = Made(rows * cols), y = Made(rows * cols), mean = Made(rows), rstd = Made(rows);
  const FtAdd add{a.data(), b.data(), nullptr, sum.data(), rows, cols, FT_F32, FT_F32};
  const FtNormForward norm{sum.data(),  weight.data(), weight.data(), y.data(), mean.data(),
                           rstd.data(), rows,          cols,          1e-5F,    0,
                           FT_F32,      FT_F32};
  const FtAddNormForward both{a.data(),   b.data(), nullptr,     weight.data(), weight.data(),
                              sum.data(), y.data(), mean.data(), rstd.data(),   rows,
                              cols,       1e-5F,    0,           FT_F32,        FT_F32};
  for (auto _ : state) {
    if (fused) {
      api.add_norm_forward(queue.get(), &both);
    } else {
      api.add(queue.get(), &add);
      api.norm_forward(queue.get(), &norm);
    }
  }
}

// The first chunk is the whole tensor, the baseline; smaller chunks fit the caches.
void RegisterAll() {
  for (const Sizes s : {Sizes{1024, 384, 1536}, Sizes{1024, 768, 3072}}) {
    const std::string size = std::to_string(s.rows) + "x" + std::to_string(s.out) + "x" +
                             std::to_string(s.in) + "/rows:";
    for (const std::int64_t chunk :
         {s.rows, std::int64_t{256}, std::int64_t{128}, std::int64_t{64}}) {
      const std::string name = size + std::to_string(chunk);
      benchmark::RegisterBenchmark(("gemm_gelu/" + name).c_str(), GemmGelu, s, chunk)
          ->Unit(benchmark::kMicrosecond);
      benchmark::RegisterBenchmark(("gemm_gelu_backward/" + name).c_str(), GemmGeluBackward, s,
                                   chunk)
          ->Unit(benchmark::kMicrosecond);
    }
    for (const bool fused : {false, true}) {
      const std::string name = std::string(fused ? "add_norm/" : "add+norm/") +
                               std::to_string(s.rows) + "x" + std::to_string(s.in);
      benchmark::RegisterBenchmark(name.c_str(), AddNorm, s.rows, s.in, fused)
          ->Unit(benchmark::kMicrosecond);
    }
  }
}

}  // namespace
}  // namespace foretrain

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  foretrain::RegisterAll();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
