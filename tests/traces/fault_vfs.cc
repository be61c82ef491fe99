#include "tests/traces/fault_vfs.h"

#include <signal.h>
#include <sqlite3.h>

#include <atomic>

namespace foretrain {
namespace {

std::atomic<int> calls_left = -1;  // until the fault; negative after it
std::atomic<bool> armed = false;
std::atomic<bool> sticky_fault = false;
std::atomic<FaultKind> fault_kind = FaultKind::kIo;
std::atomic<bool> fired = false;

// SQLite's file struct, with the real file after it.
struct FaultFile {
  sqlite3_file base;
  sqlite3_file* real;
};

sqlite3_file* Real(sqlite3_file* file) { return reinterpret_cast<FaultFile*>(file)->real; }

// The error code to return, or SQLITE_OK.
int Fault(int io_code) {
  if (!armed) return SQLITE_OK;
  const int left = calls_left.fetch_sub(1);
  if (left > 0 || (left < 0 && !sticky_fault)) return SQLITE_OK;
  fired = true;
  if (fault_kind == FaultKind::kKill) raise(SIGKILL);
  return fault_kind == FaultKind::kFull ? SQLITE_FULL : io_code;
}

int Close(sqlite3_file* file) { return Real(file)->pMethods->xClose(Real(file)); }
int Read(sqlite3_file* file, void* out, int bytes, sqlite3_int64 at) {
  return Real(file)->pMethods->xRead(Real(file), out, bytes, at);
}
int Write(sqlite3_file* file, const void* in, int bytes, sqlite3_int64 at) {
  const int code = Fault(SQLITE_IOERR_WRITE);
  return code != SQLITE_OK ? code : Real(file)->pMethods->xWrite(Real(file), in, bytes, at);
}
int Truncate(sqlite3_file* file, sqlite3_int64 bytes) {
  const int code = Fault(SQLITE_IOERR_TRUNCATE);
  return code != SQLITE_OK ? code : Real(file)->pMethods->xTruncate(Real(file), bytes);
}
int Sync(sqlite3_file* file, int flags) {
  const int code = Fault(SQLITE_IOERR_FSYNC);
  return code != SQLITE_OK ? code : Real(file)->pMethods->xSync(Real(file), flags);
}
int FileSize(sqlite3_file* file, sqlite3_int64* bytes) {
  return Real(file)->pMethods->xFileSize(Real(file), bytes);
}
int Lock(sqlite3_file* file, int lock) { return Real(file)->pMethods->xLock(Real(file), lock); }
int Unlock(sqlite3_file* file, int lock) { return Real(file)->pMethods->xUnlock(Real(file), lock); }
int CheckReservedLock(sqlite3_file* file, int* out) {
  return Real(file)->pMethods->xCheckReservedLock(Real(file), out);
}
int FileControl(sqlite3_file* file, int op, void* argument) {
  return Real(file)->pMethods->xFileControl(Real(file), op, argument);
}
int SectorSize(sqlite3_file* file) { return Real(file)->pMethods->xSectorSize(Real(file)); }
int Characteristics(sqlite3_file* file) {
  return Real(file)->pMethods->xDeviceCharacteristics(Real(file));
}
int ShmMap(sqlite3_file* file, int region, int bytes, int extend, void volatile** out) {
  return Real(file)->pMethods->xShmMap(Real(file), region, bytes, extend, out);
}
int ShmLock(sqlite3_file* file, int offset, int n, int flags) {
  return Real(file)->pMethods->xShmLock(Real(file), offset, n, flags);
}
void ShmBarrier(sqlite3_file* file) { Real(file)->pMethods->xShmBarrier(Real(file)); }
int ShmUnmap(sqlite3_file* file, int remove) {
  return Real(file)->pMethods->xShmUnmap(Real(file), remove);
}

constexpr sqlite3_io_methods kMethods = {
    2,
    Close,
    Read,
    Write,
    Truncate,
    Sync,
    FileSize,
    Lock,
    Unlock,
    CheckReservedLock,
    FileControl,
    SectorSize,
    Characteristics,
    ShmMap,
    ShmLock,
    ShmBarrier,
    ShmUnmap,
    nullptr,
    nullptr,
};

int Open(sqlite3_vfs* vfs, sqlite3_filename name, sqlite3_file* file, int flags, int* out) {
  auto* real_vfs = static_cast<sqlite3_vfs*>(vfs->pAppData);
  auto* fault = reinterpret_cast<FaultFile*>(file);
  fault->real = reinterpret_cast<sqlite3_file*>(fault + 1);
  fault->base.pMethods = nullptr;
  const int code = real_vfs->xOpen(real_vfs, name, fault->real, flags, out);
  if (fault->real->pMethods != nullptr) fault->base.pMethods = &kMethods;
  return code;
}

sqlite3_vfs MakeVfs() {
  sqlite3_vfs* real = sqlite3_vfs_find(nullptr);
  sqlite3_vfs vfs = *real;  // everything except xOpen works on names, not files
  vfs.pNext = nullptr;
  vfs.zName = "foretrain-fault";
  vfs.pAppData = real;
  vfs.szOsFile = static_cast<int>(sizeof(FaultFile)) + real->szOsFile;
  vfs.xOpen = Open;
  return vfs;
}

}  // namespace

const char* FaultVfs() {
  static sqlite3_vfs vfs = MakeVfs();
  static const int registered = sqlite3_vfs_register(&vfs, /*makeDflt=*/0);
  static_cast<void>(registered);
  return vfs.zName;
}

void MakeFaultVfsTheDefault() {
  sqlite3_vfs_register(sqlite3_vfs_find(FaultVfs()), /*makeDflt=*/1);
}

void ArmFault(int call, bool sticky, FaultKind kind) {
  calls_left = call;
  sticky_fault = sticky;
  fault_kind = kind;
  fired = false;
  armed = true;
}

bool DisarmFault() {
  armed = false;
  return fired;
}

}  // namespace foretrain
