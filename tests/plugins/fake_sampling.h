// PM sampling of the tests' libcupti: what its two halves share. They check the order of calls, the
// size of each structure and that an image is one of their own; misuse is an error, as in CUPTI.
#pragma once

#include "profiler/cuda/sampling_table.h"

#if FT_HAVE_PM_SAMPLING
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

#include "tests/plugins/fake_cupti.h"

#define FT_EXPORT __attribute__((visibility("default")))
#define FT_CHECKED(Type) Checked(params, Type##_STRUCT_SIZE)

namespace foretrain {

inline constexpr char kAvailability[] = "counters of this device";

// The head of a decoded image; samples follow: start, end, and a value for each metric.
struct ImageHead {
  std::uint64_t magic = 0x504D53414D504C45;
  std::uint64_t metrics = 0, room = 0, samples = 0;
  std::size_t SampleBytes() const { return (2 + metrics) * sizeof(std::uint64_t); }
};

inline CUptiResult First(std::initializer_list<CUptiResult> results) {
  for (const CUptiResult result : results) {
    if (result != CUPTI_SUCCESS) return result;
  }
  return CUPTI_SUCCESS;
}

template <class Params>
CUptiResult Checked(const Params* params, std::size_t bytes) {
  const bool good = params != nullptr && params->structSize == bytes && params->pPriv == nullptr;
  return good ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}
inline CUptiResult Good(bool good, CUptiResult otherwise = CUPTI_ERROR_INVALID_PARAMETER) {
  return good ? CUPTI_SUCCESS : otherwise;
}
inline ImageHead HeadOf(const std::uint8_t* image) {
  ImageHead head;
  std::memcpy(&head, image, sizeof head);
  return head;
}
inline bool IsImage(const std::uint8_t* image, std::size_t bytes) {
  if (image == nullptr || bytes < sizeof(ImageHead)) return false;
  const ImageHead head = HeadOf(image);
  return head.magic == ImageHead().magic && bytes == sizeof head + head.room * head.SampleBytes();
}
inline const std::uint8_t* SampleOf(const std::uint8_t* image, std::size_t index) {
  return image + sizeof(ImageHead) + index * HeadOf(image).SampleBytes();
}

// A plan is the text of its metrics.
inline std::string PlanOf(const std::vector<std::string>& metrics) {
  std::string text = "plan";
  for (const std::string& metric : metrics) text += '\n' + metric;
  return text;
}
inline std::vector<std::string> MetricsOf(const void* plan, std::size_t bytes) {
  const std::string text(static_cast<const char*>(plan), bytes);
  std::vector<std::string> metrics;
  if (text.rfind("plan\n", 0) != 0) return metrics;
  for (std::size_t at = 5; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    metrics.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return metrics;
}

}  // namespace foretrain
#endif
