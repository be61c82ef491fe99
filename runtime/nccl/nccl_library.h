// The part of NCCL's C interface that the runtime calls, loaded on request. It is declared here, so
// that the build needs no NCCL header. runtime/nccl/nccl_set.h calls it.
//
// Names, values and structs follow NCCL's nccl.h, 2.14 and later.
#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"

namespace foretrain {

inline constexpr int kNcclIdBytes = 128;
struct NcclId {
  char bytes[kNcclIdBytes];
};

struct NcclComm;  // ncclComm

enum NcclResult : int { kNcclSuccess = 0, kNcclInProgress = 7 };
enum NcclType : int {
  kNcclUint8 = 1,
  kNcclInt32 = 2,
  kNcclFloat16 = 6,
  kNcclFloat32 = 7,
  kNcclFloat64 = 8,
  kNcclBfloat16 = 9
};
enum NcclOp : int { kNcclSum = 0, kNcclMax = 2 };

// ncclConfig_t of 2.14. Later libraries recognize its size and version, and use their defaults for
// newer fields.
struct NcclConfig {
  std::size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 1;
};

struct NcclApi {
  int (*ncclGetVersion)(int* version) = nullptr;
  int (*ncclGetUniqueId)(NcclId* id) = nullptr;
  int (*ncclCommInitRankConfig)(NcclComm** comm, int ranks, NcclId id, int rank,
                                NcclConfig* config) = nullptr;
  int (*ncclCommGetAsyncError)(NcclComm* comm, int* error) = nullptr;
  int (*ncclCommFinalize)(NcclComm* comm) = nullptr;
  int (*ncclCommDestroy)(NcclComm* comm) = nullptr;
  int (*ncclCommAbort)(NcclComm* comm) = nullptr;
  const char* (*ncclGetErrorString)(int error) = nullptr;
  const char* (*ncclGetLastError)(NcclComm* comm) = nullptr;
  int (*ncclAllReduce)(const void* in, void* out, std::size_t count, int type, int op,
                       NcclComm* comm, void* stream) = nullptr;
  int (*ncclReduceScatter)(const void* in, void* out, std::size_t each, int type, int op,
                           NcclComm* comm, void* stream) = nullptr;
  int (*ncclAllGather)(const void* in, void* out, std::size_t each, int type, NcclComm* comm,
                       void* stream) = nullptr;
  int (*ncclSend)(const void* in, std::size_t count, int type, int peer, NcclComm* comm,
                  void* stream) = nullptr;
  int (*ncclRecv)(void* out, std::size_t count, int type, int peer, NcclComm* comm,
                  void* stream) = nullptr;
  int (*ncclGroupStart)() = nullptr;
  int (*ncclGroupEnd)() = nullptr;
};

// Loads `file`, which stays loaded. Errors: kUnsupported, with the loader's text, or naming the
// missing function or the version, which must be 2.14 or later.
Result<NcclApi> LoadNccl(const std::string& file = "libnccl.so.2");

// "2.28.9"; "?" if the library does not report it.
std::string NcclVersionText(const NcclApi& nccl);

}  // namespace foretrain
