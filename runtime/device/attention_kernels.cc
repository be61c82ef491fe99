#include "runtime/device/attention_kernels.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "runtime/device/launch_timer.h"

namespace foretrain {
namespace {

constexpr std::int64_t kGrain = 256;  // alignment of tensors, in bytes

struct Library {
  std::string name;  // empty: no library
  std::string why;   // the reason, if there is none
};

// The name includes the version, because stored times hold only for the version that was timed.
Library LibraryOf(const FtDeviceApi& api) {
  if (api.attention_library == nullptr || api.attention_forward_use == nullptr ||
      api.attention_backward_use == nullptr) {
    return {"", std::string(api.name) + " has no library for attention"};
  }
  std::array<char, 64> name{};
  std::array<char, 512> why{};
  if (api.attention_library(name.data(), name.size(), why.data(), why.size()) != FT_OK) {
    return {"", why.data()};
  }
  return {name.data(), ""};
}

// Key under which the times of a pass are stored: its sizes, format and direction.
AttentionTime KeyOf(const AttentionPass& pass) {
  return std::visit(
      [&](const auto& g) {
        AttentionTime key;
        key.batch = g.batch, key.sequence = g.sequence;
        key.heads = g.heads, key.kv_heads = g.kv_heads, key.head_dim = g.head_dim;
        key.format = g.dtype == FT_F16 ? NumberFormat::kFp16 : NumberFormat::kBf16;
        key.backward = std::holds_alternative<FtAttentionBackward>(pass);
        return key;
      },
      pass);
}

// True if the library may compute the pass. Windows, softcap, ALiBi, documents, dropout and other
// layouts are computed by our own kernels.
bool IsPlain(const AttentionPass& pass) {
  return std::visit(
      [](const auto& g) {
        return (g.dtype == FT_BF16 || g.dtype == FT_F16) && g.window == 0 && g.softcap == 0.0F &&
               g.alibi_heads == 0 && g.random.probability == 0.0F && g.document_starts == nullptr &&
               (g.value_dim == 0 || g.value_dim == g.head_dim) &&
               g.row_stride == std::int64_t{g.heads + 2 * g.kv_heads} * g.head_dim;
      },
      pass);
}

// Sets the kernels for passes like this one on the queue. FT_UNSUPPORTED: the library does not
// compute them.
FtStatus Use(const FtDeviceApi& api, FtQueue* queue, const AttentionPass& pass,
             FtAttentionKernels kernels) {
  if (const auto* const forward = std::get_if<FtAttentionForward>(&pass)) {
    return api.attention_forward_use(queue, forward, kernels);
  }
  return api.attention_backward_use(queue, &std::get<FtAttentionBackward>(pass), kernels);
}

FtStatus Launch(const FtDeviceApi& api, FtQueue* queue, const AttentionPass& pass) {
  if (const auto* const forward = std::get_if<FtAttentionForward>(&pass)) {
    return api.attention_forward(queue, forward);
  }
  return api.attention_backward(queue, &std::get<FtAttentionBackward>(pass));
}

// Assigns memory to tensors one after the other. Without memory it only counts bytes. Bind
// therefore runs twice: first to learn the size, then with memory of that size.
class Tensors {
 public:
  explicit Tensors(std::byte* at) : at_(at) {}
  void* Next(std::int64_t bytes) {
    void* const tensor = at_ != nullptr ? at_ + used_ : nullptr;
    used_ += (bytes + kGrain - 1) / kGrain * kGrain;
    return tensor;
  }
  std::int64_t used() const { return used_; }

 private:
  std::byte* at_;
  std::int64_t used_ = 0;
};

// Assigns tensors to a pass. q, k and v lie next to each other in each row, as in training: rows
// have a stride of (heads + 2 kv_heads) * head_dim. Strides affect the kernels' time.
void Bind(AttentionPass& pass, Tensors& tensors) {
  std::visit(
      [&](auto& g) {
        constexpr std::int64_t kBytes = 2;  // a number
        const std::int64_t rows = g.batch * g.sequence, out = rows * g.heads * g.head_dim * kBytes;
        const std::int64_t k = g.heads * g.head_dim * kBytes,
                           v = k + g.kv_heads * g.head_dim * kBytes;
        const auto part = [](void* of, std::int64_t bytes) {
          return of != nullptr ? static_cast<std::byte*>(of) + bytes : nullptr;
        };
        void* const qkv = tensors.Next(rows * g.row_stride * kBytes);
        g.q = qkv, g.k = part(qkv, k), g.v = part(qkv, v);
        g.out = tensors.Next(out);
        g.lse = static_cast<float*>(tensors.Next(rows * g.heads * std::int64_t{sizeof(float)}));
        if constexpr (std::is_same_v<std::decay_t<decltype(g)>, FtAttentionBackward>) {
          g.dout = tensors.Next(out);
          void* const gradient = tensors.Next(rows * g.row_stride * kBytes);
          g.dq = gradient, g.dk = part(gradient, k), g.dv = part(gradient, v);
        }
      },
      pass);
}

// Times our kernels and the library's for one pass, alternating, so that changing clocks affect
// both. `nullopt` if the library does not compute the pass.
Result<std::optional<AttentionTime>> TimeBoth(const FtDeviceApi& api, LaunchTimer& timer,
                                              AttentionPass pass,
                                              const TimeAttentionOptions& options) {
  Tensors counted(nullptr);
  Bind(pass, counted);
  FT_ASSIGN(std::byte* const memory, timer.Memory(counted.used()));
  Tensors tensors(memory);
  Bind(pass, tensors);
  constexpr std::array kKernels{FT_ATTENTION_OWN, FT_ATTENTION_LIBRARY};
  const auto use = [&](std::size_t i) -> Result<bool> {
    const FtStatus status = Use(api, timer.queue(), pass, kKernels[i]);
    if (status == FT_UNSUPPORTED) return false;
    FT_TRY(Checked(status, "choose kernels", api.queue_error(timer.queue())));
    return true;
  };
  const Contest contest{.what = "attention",
                        .candidates = kKernels.size(),
                        .use = use,
                        .launch = [&] { return Launch(api, timer.queue(), pass); },
                        .rounds = options.rounds,
                        .launches = options.launches};
  FT_ASSIGN(const std::vector<std::optional<double>> seconds, TimeInTurns(timer, contest));
  if (!seconds[0] || !seconds[1]) return std::optional<AttentionTime>();
  AttentionTime time = KeyOf(pass);
  time.own_seconds = *seconds[0], time.library_seconds = *seconds[1];
  return std::optional<AttentionTime>(time);
}

}  // namespace

std::optional<AttentionPass> AttentionPassOf(const KernelCall& call) {
  if (const FtAttentionForward* const g = ArgumentsIn<&FtDeviceApi::attention_forward>(call))
    return AttentionPass(*g);
  if (const FtAttentionBackward* const g = ArgumentsIn<&FtDeviceApi::attention_backward>(call))
    return AttentionPass(*g);
  return std::nullopt;
}

std::optional<AttentionPass> AttentionPassOf(const Op& op) {
  return FamilyOf(op.kind) == OpFamily::kAttention ? AttentionPassOf(UnboundCall(op))
                                                   : std::nullopt;
}

// A linear search: a profile has a few passes. The two times are copied into the key, so that ==
// compares all the rest.
const AttentionTime* FindAttentionTime(const AttentionTimes& times, const AttentionPass& pass) {
  if (!IsPlain(pass)) return nullptr;
  AttentionTime key = KeyOf(pass);
  const auto found = std::find_if(times.of.begin(), times.of.end(), [&](const AttentionTime& kept) {
    key.own_seconds = kept.own_seconds, key.library_seconds = kept.library_seconds;
    return kept == key;
  });
  return found != times.of.end() ? &*found : nullptr;
}

std::string WhyLibraryNotUsed(const FtDeviceApi& api, AttentionChoice choice) {
  if (choice == AttentionChoice::kOwn) return "";
  if (choice == AttentionChoice::kAuto && api.attention_library == nullptr) return "";
  const Library library = LibraryOf(api);
  return library.name.empty() ? "attention by cuDNN: " + library.why : "";
}

// Without times of this version, kAuto takes the library for forwards only: on an H200 cuDNN 9.19
// was 1.8 to 2.7 times faster there, and 2 to 4.5 times slower in backwards of a fixed order
// (docs/performance.md). An explicit choice fails if the library cannot compute a pass, rather than
// falling back silently.
Result<void> UseAttentionKernels(const FtDeviceApi& api, FtQueue* queue, AttentionChoice choice,
                                 const AttentionTimes& times,
                                 std::span<const AttentionPass> passes) {
  const bool is_auto = choice == AttentionChoice::kAuto;
  if (choice == AttentionChoice::kOwn || passes.empty()) return {};
  if (is_auto && std::none_of(passes.begin(), passes.end(), &IsPlain)) return {};
  const Library library = LibraryOf(api);
  if (library.name.empty()) {
    if (is_auto) return {};
    return Fail(ErrorCode::kUnsupported, "attention by cuDNN: " + library.why);
  }
  const bool are_its_times = times.library == library.name;
  const FtAttentionKernels kernels = choice == AttentionChoice::kLibraryAnyOrder
                                         ? FT_ATTENTION_LIBRARY_ANY_ORDER
                                         : FT_ATTENTION_LIBRARY;
  for (const AttentionPass& pass : passes) {
    const AttentionTime* const kept = are_its_times ? FindAttentionTime(times, pass) : nullptr;
    const bool is_faster =
        kept != nullptr ? IsLibraryFaster(*kept) : std::holds_alternative<FtAttentionForward>(pass);
    if (is_auto && !(IsPlain(pass) && is_faster)) continue;
    const FtStatus status = Use(api, queue, pass, kernels);
    if (is_auto && status == FT_UNSUPPORTED) continue;
    FT_TRY(Checked(status, "attention by cuDNN", api.queue_error(queue)));
  }
  return {};
}

Result<AttentionTimes> TimeAttention(const FtDeviceApi& api, std::span<const AttentionPass> passes,
                                     const TimeAttentionOptions& options) {
  AttentionTimes times;
  times.library = LibraryOf(api).name;
  if (times.library.empty() || api.event_elapsed == nullptr || passes.empty()) {
    return AttentionTimes{};
  }
  FT_ASSIGN(LaunchTimer timer, LaunchTimer::Make(api, options.device));
  for (const AttentionPass& pass : passes) {
    if (options.stop && options.stop()) {
      return Fail(ErrorCode::kAborted, "calibration was stopped");
    }
    if (options.is_over && options.is_over()) break;
    if (!IsPlain(pass) || FindAttentionTime(times, pass) != nullptr) continue;
    FT_ASSIGN(const std::optional<AttentionTime> time, TimeBoth(api, timer, pass, options));
    if (time) times.of.push_back(*time);
  }
  return times;
}

}  // namespace foretrain
