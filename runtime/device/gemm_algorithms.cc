#include "runtime/device/gemm_algorithms.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

#include "runtime/device/launch_timer.h"
#include "runtime/ops/kernel_call.h"

namespace foretrain {
namespace {

constexpr double kGain = 0.98;  // of the library's own time: smaller gains may be noise

std::string LibraryOf(const FtDeviceApi& api) {
  std::array<char, 64> name{};
  const bool has = api.gemm_library != nullptr && api.gemm_algorithms != nullptr &&
                   api.gemm_use != nullptr && api.gemm_library(name.data(), name.size()) == FT_OK;
  return has ? name.data() : "";
}

// The inverse of DtypeOf; kFp32 for a dtype that no format has.
NumberFormat FormatOf(FtDtype dtype) {
  for (int i = 0; i < kNumberFormatCount; ++i) {
    const auto format = static_cast<NumberFormat>(i);
    if (DtypeOf(format) == dtype) return format;
  }
  return NumberFormat::kFp32;
}

// Key under which the algorithm of a product is stored.
GemmAlgorithm KeyOf(const FtGemm& g) {
  GemmAlgorithm key;
  key.rows = g.m, key.cols = g.n, key.inner = g.k;
  key.accumulate = g.accumulate != 0, key.trans_a = g.trans_a != 0, key.trans_b = g.trans_b != 0;
  key.has_bias = g.bias != nullptr;
  key.format = g.compute == FT_TF32 ? NumberFormat::kTf32 : FormatOf(g.dtype);
  key.operands = FormatOf(g.dtype), key.result = FormatOf(g.c_dtype);
  if (key.has_bias) key.bias = FormatOf(g.bias_dtype);
  key.epilogue = static_cast<GemmEpilogue>(g.epilogue);
  key.has_aux = g.aux != nullptr, key.has_row_sums = g.row_sums != nullptr;
  if (key.has_row_sums) key.row_sums = FormatOf(g.row_sums_dtype);
  return key;
}

// == compares all fields, so those that are no part of the key are made equal first.
bool HasKey(GemmAlgorithm algorithm, const GemmAlgorithm& key) {
  algorithm.words = key.words;
  algorithm.seconds = key.seconds, algorithm.library_seconds = key.library_seconds;
  return algorithm == key;
}

// True if algorithms are stored for such products: dense rows, and no 8-bit codes, for which the
// library chooses itself.
bool IsPlain(const FtGemm& g) {
  return g.dtype != FT_FP8 && g.dtype != FT_E5M2 && g.a_scale == nullptr && g.b_scale == nullptr &&
         g.lda == (g.trans_a != 0 ? g.m : g.k) && g.ldb == (g.trans_b != 0 ? g.k : g.n) &&
         g.ldc == g.n && (g.aux == nullptr || g.ld_aux == g.n);
}

// The plain product without epilogue and row sums: the library computes this if it does not support
// the parts.
FtGemm WithoutParts(FtGemm g) {
  if (g.epilogue == FT_EPILOGUE_ACTIVATE && g.aux != nullptr) g.c = g.aux;
  g.epilogue = FT_EPILOGUE_NONE;
  g.aux = nullptr;
  g.row_sums = nullptr;
  return g;
}
bool HasParts(const FtGemm& g) { return g.epilogue != FT_EPILOGUE_NONE || g.row_sums != nullptr; }

// The queue then uses the algorithm for all products like `g`. False if the library refuses it.
Result<bool> Use(const FtDeviceApi& api, FtQueue* queue, const FtGemm& g,
                 const FtGemmAlgorithm& algorithm) {
  const FtStatus status = api.gemm_use(queue, &g, &algorithm);
  if (status == FT_UNSUPPORTED) return false;
  FT_TRY(Checked(status, "choose an algorithm", api.queue_error(queue)));
  return true;
}

// Times the candidate algorithms of one product at a time.
class Tuner {
 public:
  static Result<Tuner> Make(const FtDeviceApi& api, const TuneOptions& options) {
    FT_ASSIGN(LaunchTimer timer, LaunchTimer::Make(api, options.device));
    return Tuner(api, options, std::move(timer));
  }

  // `nullopt` if the library has no algorithm for the product.
  Result<std::optional<GemmAlgorithm>> Fastest(FtGemm product) {
    FT_TRY(Bind(product));
    std::vector<FtGemmAlgorithm> found(static_cast<std::size_t>(options_.candidates));
    std::int32_t count = 0;
    FT_TRY(Checked(
        api_.gemm_algorithms(timer_.queue(), &product, found.data(), options_.candidates, &count),
        "ask for algorithms", api_.queue_error(timer_.queue())));
    found.resize(static_cast<std::size_t>(count));
    const Contest contest{
        .what = "GEMM",
        .candidates = found.size(),
        .use = [&](std::size_t i) { return Use(api_, timer_.queue(), product, found[i]); },
        .launch = [&] { return api_.gemm(timer_.queue(), &product); },
        .rounds = options_.rounds,
        .launches = options_.launches};
    FT_ASSIGN(const std::vector<std::optional<double>> seconds, TimeInTurns(timer_, contest));
    return Choose(product, found, seconds);
  }

 private:
  Tuner(const FtDeviceApi& api, const TuneOptions& options, LaunchTimer timer)
      : api_(api), options_(options), timer_(std::move(timer)) {}

  // A candidate must be faster than the best so far, and 2 % faster than the library's own choice.
  static std::optional<GemmAlgorithm> Choose(const FtGemm& product,
                                             const std::vector<FtGemmAlgorithm>& found,
                                             const std::vector<std::optional<double>>& seconds) {
    std::optional<GemmAlgorithm> best;
    double own = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (!seconds[i]) continue;
      const double time = *seconds[i];
      if (!best) own = time;
      // The first usable candidate is the library's own choice.
      if (best && !(time < best->seconds && time < kGain * own)) continue;
      best = KeyOf(product);
      std::copy_n(found[i].words, best->words.size(), best->words.begin());
      best->seconds = time, best->library_seconds = own;
    }
    return best;
  }

  // Allocates the operands, each aligned to 256 bytes.
  Result<void> Bind(FtGemm& g) {
    const auto bytes = [](FtDtype dtype, std::int64_t numbers) {
      return (numbers * (dtype == FT_F32 ? 4 : 2) + 255) / 256 * 256;
    };
    const std::int64_t a = bytes(g.dtype, g.m * g.k), b = bytes(g.dtype, g.k * g.n),
                       c = bytes(g.c_dtype, g.m * g.n), bias = bytes(g.bias_dtype, g.n),
                       sums = bytes(g.row_sums_dtype, g.m);
    FT_ASSIGN(std::byte* const at,
              timer_.Memory(a + b + c + bias + sums + (g.aux != nullptr ? c : 0)));
    g.a = at, g.b = at + a, g.c = at + a + b;
    if (g.bias != nullptr) g.bias = at + a + b + c;
    if (g.row_sums != nullptr) g.row_sums = at + a + b + c + bias;
    if (g.aux != nullptr) g.aux = at + a + b + c + bias + sums;
    return {};
  }

  const FtDeviceApi& api_;
  const TuneOptions& options_;
  LaunchTimer timer_;
};

}  // namespace

// Only the presence of a pointer counts here: the address is never read.
FtGemm ProductOf(const Op& op, bool has_bias) {
  FtGemm g = *ArgumentsIn<&FtDeviceApi::gemm>(UnboundCall(op));
  static const char kSomewhere = 0;
  // a non-null address that is never accessed
  void* const somewhere = const_cast<char*>(&kSomewhere);
  if (has_bias) g.bias = somewhere;
  if (op.kind == OpKind::kGemmActivationKept || op.kind == OpKind::kGemmActivationBackward) {
    g.aux = somewhere;
  }
  if (op.kind == OpKind::kGemmBiasGrad) g.row_sums = somewhere;
  return g;
}

const GemmAlgorithm* FindAlgorithm(const GemmAlgorithms& algorithms, const FtGemm& g) {
  if (!IsPlain(g)) return nullptr;
  const GemmAlgorithm key = KeyOf(g);
  const auto found = std::find_if(algorithms.of.begin(), algorithms.of.end(),
                                  [&](const GemmAlgorithm& kept) { return HasKey(kept, key); });
  return found != algorithms.of.end() ? &*found : nullptr;
}

std::string WhyNotUsed(const FtDeviceApi& api, const GemmAlgorithms& algorithms) {
  if (algorithms.of.empty()) return "";
  const std::string library = LibraryOf(api);
  if (library == algorithms.library) return "";
  return "the profile's algorithms of GEMMs are those of " + algorithms.library + ", and " +
         (library.empty() ? std::string(api.name) + " has no such library"
                          : "this device has " + library) +
         ": the library chooses; calibrate again";
}

// cuBLASLt's version is in the library's name; 120900 is that of CUDA 12.9.
std::string WhyNoLibraryBlocks(const FtDeviceApi& api, int capability) {
  constexpr std::string_view kName = "cublasLt-";
  constexpr int kSince = 120900, kCapability = 90;
  const std::string library = LibraryOf(api);
  if (library.rfind(kName, 0) != 0) return "";
  const bool has = std::atoi(library.c_str() + kName.size()) >= kSince;
  if (has && capability == kCapability) return "";
  const std::string own = "products of codes with scales of blocks are those of own kernels: ";
  if (!has) return own + library + " has none, cuBLASLt has them from CUDA 12.9 on";
  return own + "cuBLASLt has them for compute capability 9.0 alone, this GPU has " +
         std::to_string(capability / 10) + "." + std::to_string(capability % 10);
}

// If no algorithm is stored for a product with its parts, that of the plain product is used.
Result<void> UseGemmAlgorithms(const FtDeviceApi& api, FtQueue* queue,
                               const GemmAlgorithms& algorithms, std::span<const FtGemm> gemms) {
  if (algorithms.of.empty() || !WhyNotUsed(api, algorithms).empty()) return {};
  for (const FtGemm& g : gemms) {
    FtGemm computed = g;
    const GemmAlgorithm* kept = FindAlgorithm(algorithms, computed);
    if (kept == nullptr && HasParts(g)) {
      computed = WithoutParts(g);
      kept = FindAlgorithm(algorithms, computed);
    }
    if (kept == nullptr) continue;
    FtGemmAlgorithm algorithm{};
    std::copy(kept->words.begin(), kept->words.end(), algorithm.words);
    FT_TRY(Use(api, queue, computed, algorithm));
  }
  return {};
}

// Products with the same key are timed once.
Result<GemmAlgorithms> TuneGemms(const FtDeviceApi& api, std::span<const FtGemm> products,
                                 const TuneOptions& options) {
  GemmAlgorithms tuned;
  if (LibraryOf(api).empty() || api.event_elapsed == nullptr || products.empty()) return tuned;
  tuned.library = LibraryOf(api);
  FT_ASSIGN(Tuner tuner, Tuner::Make(api, options));
  for (const FtGemm& product : products) {
    if (options.stop && options.stop()) {
      return Fail(ErrorCode::kAborted, "calibration was stopped");
    }
    if (options.is_over && options.is_over()) break;
    if (!IsPlain(product) || FindAlgorithm(tuned, product) != nullptr) continue;
    FT_ASSIGN(std::optional<GemmAlgorithm> fastest, tuner.Fastest(product));
    if (const FtGemm alone = WithoutParts(product);
        !fastest && HasParts(product) && FindAlgorithm(tuned, alone) == nullptr) {
      FT_ASSIGN(fastest, tuner.Fastest(alone));
    }
    if (fastest) tuned.of.push_back(*fastest);
  }
  return tuned;
}

}  // namespace foretrain
