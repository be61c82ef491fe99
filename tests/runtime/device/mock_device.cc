#include "tests/runtime/device/mock_device.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace foretrain {
namespace {

bool Fails() { return Mock().calls.fetch_add(1) == Mock().fail_at.load(); }

FtStatus Say(char* why, std::size_t n) {
  std::snprintf(why, n, "the mock was told to fail");
  return FT_OUT_OF_MEMORY;
}

FtStatus DeviceCount(std::int32_t* count, char* why, std::size_t n) {
  if (Fails()) return Say(why, n);
  *count = 1;
  return FT_OK;
}

FtStatus Memory(std::int32_t, FtMemory* out, char* why, std::size_t n) {
  if (Fails()) return Say(why, n);
  out->free_bytes = out->total_bytes = Mock().capacity.load();
  return FT_OK;
}

FtStatus Allocate(std::int32_t, std::int64_t bytes, void** out, char* why, std::size_t n) {
  if (Fails()) return Say(why, n);
  *out = std::aligned_alloc(256, static_cast<std::size_t>((bytes + 255) / 256 * 256));
  if (*out == nullptr) return Say(why, n);
  ++Mock().live_allocations;
  return FT_OK;
}

FtStatus Release(std::int32_t, void* pointer, char*, std::size_t) {
  std::free(pointer);
  --Mock().live_allocations;
  return FT_OK;
}

FtStatus QueueCreate(std::int32_t, FtQueue** out, char* why, std::size_t n) {
  if (Fails()) return Say(why, n);
  *out = reinterpret_cast<FtQueue*>(new int(0));  // FtQueue stays incomplete
  return FT_OK;
}

void QueueDestroy(FtQueue* queue) { delete reinterpret_cast<int*>(queue); }
const char* QueueError(const FtQueue*) { return "the mock was told to fail"; }
FtStatus QueueSynchronize(FtQueue*) { return FT_OK; }

FtStatus Copy(FtQueue*, void* to, const void* from, std::int64_t bytes) {
  if (Fails()) return FT_FAILED;
  std::memcpy(to, from, static_cast<std::size_t>(bytes));
  return FT_OK;
}

FtStatus Fill(FtQueue*, void* to, std::int32_t value, std::int64_t bytes) {
  if (Fails()) return FT_FAILED;
  std::memset(to, value, static_cast<std::size_t>(bytes));
  return FT_OK;
}

std::int32_t Supports(FtKernel kernel, FtDtype dtype) {
  return dtype == FT_F32 && (kernel == FT_KERNEL_GEMM || kernel == FT_KERNEL_ADD ||
                             kernel == FT_KERNEL_SQUARED_NORM || kernel == FT_KERNEL_SUM_RANKS);
}

FtStatus Gemm(FtQueue*, const FtGemm* g) {
  if (Fails()) return FT_FAILED;
  const auto* a = static_cast<const float*>(g->a);
  const auto* b = static_cast<const float*>(g->b);
  auto* c = static_cast<float*>(g->c);
  for (std::int64_t i = 0; i < g->m; ++i) {
    for (std::int64_t j = 0; j < g->n; ++j) {
      float sum = g->accumulate != 0 ? c[i * g->ldc + j] : 0.0F;
      for (std::int64_t k = 0; k < g->k; ++k) {
        sum += (g->trans_a != 0 ? a[k * g->lda + i] : a[i * g->lda + k]) *
               (g->trans_b != 0 ? b[j * g->ldb + k] : b[k * g->ldb + j]);
      }
      if (g->bias != nullptr) sum += static_cast<const float*>(g->bias)[j];
      c[i * g->ldc + j] = sum;
    }
  }
  return FT_OK;
}

FtStatus Add(FtQueue*, const FtAdd* add) {
  if (Fails()) return FT_FAILED;
  const auto* a = static_cast<const float*>(add->a);
  const auto* b = static_cast<const float*>(add->b);
  auto* out = static_cast<float*>(add->out);
  for (std::int64_t i = 0; i < add->rows * add->cols; ++i) {
    const float bias =
        add->bias == nullptr ? 0.0F : static_cast<const float*>(add->bias)[i % add->cols];
    out[i] = a[i] + b[i] + bias;
  }
  return FT_OK;
}

FtStatus SquaredNorm(FtQueue*, const FtSquaredNorm* norm) {
  if (Fails()) return FT_FAILED;
  double sum = 0;
  for (std::int64_t i = 0; i < norm->elements; ++i) {
    const double x = static_cast<const float*>(norm->x)[i];
    sum += x * x;
  }
  *norm->out = static_cast<float>(sum + (norm->accumulate != 0 ? *norm->out : 0.0F));
  return FT_OK;
}

FtStatus SumRanks(FtQueue*, const FtSumRanks* sum) {
  if (Fails()) return FT_FAILED;
  if (sum->dtype != FT_F32) return FT_UNSUPPORTED;
  auto* out = static_cast<float*>(sum->out);
  for (std::int64_t i = 0; i < sum->elements; ++i) {
    float total = 0.0F;
    for (int s = 0; s < sum->count; ++s) total += static_cast<const float*>(sum->sources[s])[i];
    out[i] = total;
  }
  return FT_OK;
}

FtDeviceApi MakeApi() {
  FtDeviceApi api{};
  api.version = FT_DEVICE_API_VERSION;
  api.name = "mock";
  api.device_count = DeviceCount;
  api.memory = Memory;
  api.allocate = Allocate;
  api.release = Release;
  api.queue_create = QueueCreate;
  api.queue_destroy = QueueDestroy;
  api.queue_error = QueueError;
  api.queue_synchronize = QueueSynchronize;
  api.copy = Copy;
  api.fill = Fill;
  api.supports = Supports;
  api.gemm = Gemm;
  api.add = Add;
  api.squared_norm = SquaredNorm;
  api.sum_ranks = SumRanks;
  return api;
}

}  // namespace

MockDevice& Mock() {
  static MockDevice mock;
  return mock;
}

const FtDeviceApi& MockDeviceApi() {
  static const FtDeviceApi api = MakeApi();
  return api;
}

}  // namespace foretrain
