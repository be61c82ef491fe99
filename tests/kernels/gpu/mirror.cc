#include "tests/kernels/gpu/mirror.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "tests/kernels/gpu/allocations.h"

namespace foretrain::test {
namespace {

// Size copied for a number on the stack, whose size is unknown: enough for any.
constexpr std::size_t kStackBytes = 64;
constexpr int kGuard = 0xA5;
// 64-bit programs and libraries are mapped above this address. The driver maps memory below it, and
// two adjacent numbers can look like an address there.
constexpr std::uintptr_t kLowest = std::uintptr_t{1} << 46;

const FtDeviceApi* device = nullptr;  // device of the one table
MirrorOptions mirror_options;

// Offsets of arguments that point to host memory read by the entry itself.
template <class Arguments>
struct HostMembers {
  static constexpr std::array<std::size_t, 0> kAt{};
};
#define FT_HOST_MEMBER(Arguments, member)                         \
  template <>                                                     \
  struct HostMembers<Arguments> {                                 \
    static constexpr std::array kAt{offsetof(Arguments, member)}; \
  }
FT_HOST_MEMBER(FtEmbeddingForward, runs);
FT_HOST_MEMBER(FtEmbeddingBackward, runs);
FT_HOST_MEMBER(FtRope, runs);
FT_HOST_MEMBER(FtDropout, runs);
FT_HOST_MEMBER(FtSumRanks, sources);
#undef FT_HOST_MEMBER
#define FT_HOST_MEMBERS(Arguments)                                   \
  template <>                                                        \
  struct HostMembers<Arguments> {                                    \
    static constexpr std::array kAt{offsetof(Arguments, query_runs), \
                                    offsetof(Arguments, key_runs)};  \
  }
FT_HOST_MEMBERS(FtAttentionPartForward);
FT_HOST_MEMBERS(FtAttentionPartBackward);
#undef FT_HOST_MEMBERS

// Device copies for one call.
class Images {
 public:
  explicit Images(FtQueue* queue) : queue_(queue) {}
  Images(const Images&) = delete;
  Images& operator=(const Images&) = delete;
  ~Images() {
    char why[256];
    for (auto& [begin, image] : images_) device->release(0, image.memory, why, sizeof why);
  }

  // Device address of the memory at `address`, which may be no address at all.
  std::uintptr_t Translate(std::uintptr_t address) {
    Range range = AllocationOf(address);
    // A pointer past the end belongs to an empty tensor, or to the next allocation.
    if (range.bytes == 0) range = StackFrom(address, kStackBytes);
    if (range.bytes == 0) {
      if (address >= kLowest && IsMapped(address)) {
        ADD_FAILURE() << "an argument points to memory that is neither of new nor of the stack, "
                         "which a device cannot read";
      }
      return address;
    }
    const auto found = images_.find(range.begin);
    Image* const image = found != images_.end() ? &found->second : Make(range);
    if (image == nullptr) return address;
    return reinterpret_cast<std::uintptr_t>(image->memory) + (address - range.begin);
  }

  // Writes back only bytes that the device has changed, because copies of numbers on the stack
  // overlap.
  void Return() {
    for (auto& [begin, image] : images_) {
      std::vector<std::byte> now(image.sent.size());
      Told(device->copy(queue_, now.data(), image.memory, static_cast<std::int64_t>(now.size())));
      Told(device->queue_synchronize(queue_));
      auto* const host = reinterpret_cast<std::byte*>(begin);
      for (std::size_t i = 0; i < image.bytes; ++i) {
        if (now[i] != image.sent[i]) host[i] = now[i];
      }
      const auto guard = now.begin() + static_cast<std::ptrdiff_t>(image.bytes);
      EXPECT_TRUE(
          std::all_of(guard, now.end(), [](std::byte byte) { return byte == std::byte{kGuard}; }))
          << "the device has written behind a tensor of " << image.bytes << " bytes";
    }
  }

 private:
  struct Image {
    void* memory = nullptr;
    std::size_t bytes = 0;
    std::vector<std::byte> sent;  // including the guard
  };

  Image* Make(const Range& range) {
    Image image;
    image.bytes = range.bytes;
    image.sent.resize(range.bytes + static_cast<std::size_t>(mirror_options.guard_bytes),
                      std::byte{kGuard});
    std::memcpy(image.sent.data(), reinterpret_cast<const void*>(range.begin), range.bytes);
    const auto bytes = static_cast<std::int64_t>(image.sent.size());
    char why[256] = "";
    if (device->allocate(0, bytes, &image.memory, why, sizeof why) != FT_OK) {
      ADD_FAILURE() << why;
      return nullptr;
    }
    Told(device->copy(queue_, image.memory, image.sent.data(), bytes));
    return &images_.emplace(range.begin, std::move(image)).first->second;
  }

  void Told(FtStatus status) const {
    if (status != FT_OK) ADD_FAILURE() << device->queue_error(queue_);
  }

  FtQueue* queue_;
  std::map<std::uintptr_t, Image> images_;  // key: host address of the first byte
};

// Sets padding to zero, because stale bytes in it can look like an address.
template <class Arguments>
void ClearPadding(Arguments& arguments) {
#if __has_builtin(__builtin_clear_padding)
  __builtin_clear_padding(&arguments);
#else
  static_cast<void>(arguments);
#endif
}

// Arguments with host addresses replaced by device addresses. All pointers are aligned to their
// size.
template <class Arguments>
Arguments Translated(const Arguments& arguments, Images& images) {
  constexpr auto& kHost = HostMembers<Arguments>::kAt;
  Arguments translated = arguments;
  ClearPadding(translated);
  auto* const bytes = reinterpret_cast<std::byte*>(&translated);
  for (std::size_t at = 0; at + sizeof(std::uintptr_t) <= sizeof arguments;
       at += sizeof(std::uintptr_t)) {
    if (std::find(kHost.begin(), kHost.end(), at) != kHost.end()) continue;
    std::uintptr_t word = 0;
    std::memcpy(&word, bytes + at, sizeof word);
    word = images.Translate(word);
    std::memcpy(bytes + at, &word, sizeof word);
  }
  return translated;
}

template <class Arguments>
void TranslateNested(Arguments& /*arguments*/, Images& /*images*/, std::vector<const void*>&) {}

void TranslateNested(FtSumRanks& arguments, Images& images, std::vector<const void*>& sources) {
  if (arguments.sources == nullptr) return;
  for (std::int32_t i = 0; i < arguments.count; ++i) {
    const auto address = reinterpret_cast<std::uintptr_t>(arguments.sources[i]);
    sources.push_back(reinterpret_cast<const void*>(images.Translate(address)));
  }
  arguments.sources = sources.data();
}

template <auto kEntry>
struct Mirrored;
template <class Arguments, FtStatus (*FtDeviceApi::*kEntry)(FtQueue*, const Arguments*)>
struct Mirrored<kEntry> {
  static FtStatus Call(FtQueue* queue, const Arguments* arguments) {
    Images images(queue);
    Arguments translated = Translated(*arguments, images);
    std::vector<const void*> nested;
    TranslateNested(translated, images, nested);
    FtStatus status = (device->*kEntry)(queue, &translated);
    if (status == FT_OK) status = device->queue_synchronize(queue);
    if (status == FT_OK) images.Return();
    return status;
  }
};

void MirrorKernels(FtDeviceApi& table) {
#define FT_MIRROR(NAME, entry, Arguments) table.entry = &Mirrored<&FtDeviceApi::entry>::Call;
  FT_KERNEL_ENTRIES(FT_MIRROR)
#undef FT_MIRROR
}

}  // namespace

const FtDeviceApi& MirrorOf(const FtDeviceApi& of, const MirrorOptions& options) {
  static FtDeviceApi table;
  device = &of;
  mirror_options = options;
  table = of;
  MirrorKernels(table);
  return table;
}

}  // namespace foretrain::test
