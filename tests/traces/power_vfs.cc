#include "tests/traces/power_vfs.h"

#include <sqlite3.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <random>
#include <utility>

namespace foretrain {
namespace {

constexpr int kWritesOfAMoment = 16;
constexpr std::size_t kSector = 512;

std::mutex mutex;
std::map<std::string, FileOnDisk> files;  // guarded by mutex; paths opened while recording
std::vector<DiskMoment> moments;          // guarded by mutex
std::function<std::int64_t()> promised;   // guarded by mutex; empty if nothing is recorded
int writes = 0;                           // guarded by mutex

// SQLite's file struct, with the real file after it.
struct PowerFile {
  sqlite3_file base;
  sqlite3_file* real;
  const char* path;  // SQLite keeps it until the file is closed; null for temporary files
};

PowerFile* Of(sqlite3_file* file) { return reinterpret_cast<PowerFile*>(file); }
sqlite3_file* Real(sqlite3_file* file) { return Of(file)->real; }

void Apply(const UnsyncedCall& call, std::string& bytes) {
  if (call.bytes == nullptr) {
    bytes.resize(static_cast<std::size_t>(call.at));
    return;
  }
  const std::size_t end = static_cast<std::size_t>(call.at) + call.bytes->size();
  if (bytes.size() < end) bytes.resize(end);
  std::copy(call.bytes->begin(), call.bytes->end(), bytes.begin() + call.at);
}

void RecordMomentLocked() { moments.push_back({files, promised()}); }

// Adds a call to the unsynced ones of the file, if it is recorded.
void Add(sqlite3_file* file, UnsyncedCall call) {
  if (Of(file)->path == nullptr) return;
  const std::lock_guard lock(mutex);
  const auto at = files.find(Of(file)->path);
  if (!promised || at == files.end()) return;
  if (call.bytes != nullptr && ++writes % kWritesOfAMoment == 0) RecordMomentLocked();
  at->second.unsynced.push_back(std::move(call));
}

int Close(sqlite3_file* file) { return Real(file)->pMethods->xClose(Real(file)); }
int Read(sqlite3_file* file, void* out, int bytes, sqlite3_int64 at) {
  return Real(file)->pMethods->xRead(Real(file), out, bytes, at);
}
int Write(sqlite3_file* file, const void* in, int bytes, sqlite3_int64 at) {
  Add(file, {at, std::make_shared<const std::string>(static_cast<const char*>(in),
                                                     static_cast<std::size_t>(bytes))});
  return Real(file)->pMethods->xWrite(Real(file), in, bytes, at);
}
int Truncate(sqlite3_file* file, sqlite3_int64 bytes) {
  Add(file, {bytes, nullptr});
  return Real(file)->pMethods->xTruncate(Real(file), bytes);
}
// Before the sync, every unsynced call may be on the disk or not; after it, all are.
int Sync(sqlite3_file* file, int flags) {
  if (Of(file)->path != nullptr) {
    const std::lock_guard lock(mutex);
    const auto at = files.find(Of(file)->path);
    if (promised && at != files.end()) {
      RecordMomentLocked();
      auto bytes = std::make_shared<std::string>(*at->second.synced);
      for (const UnsyncedCall& call : at->second.unsynced) Apply(call, *bytes);
      at->second = {std::move(bytes), {}};
    }
  }
  return Real(file)->pMethods->xSync(Real(file), flags);
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

// A file that is opened for the first time is taken as synced.
void Remember(const char* name) {
  const std::lock_guard lock(mutex);
  if (!promised || files.contains(name)) return;
  std::ifstream file(name, std::ios::binary);
  files[name].synced = std::make_shared<const std::string>(std::istreambuf_iterator<char>(file),
                                                           std::istreambuf_iterator<char>());
}

int Open(sqlite3_vfs* vfs, sqlite3_filename name, sqlite3_file* file, int flags, int* out) {
  auto* real_vfs = static_cast<sqlite3_vfs*>(vfs->pAppData);
  PowerFile* const power = Of(file);
  power->real = reinterpret_cast<sqlite3_file*>(power + 1);
  power->base.pMethods = nullptr;
  power->path = name;
  if (name != nullptr) Remember(name);
  const int code = real_vfs->xOpen(real_vfs, name, power->real, flags, out);
  if (power->real->pMethods != nullptr) power->base.pMethods = &kMethods;
  return code;
}

int Delete(sqlite3_vfs* vfs, const char* name, int sync) {
  auto* real_vfs = static_cast<sqlite3_vfs*>(vfs->pAppData);
  {
    const std::lock_guard lock(mutex);
    if (promised && files.contains(name)) {
      RecordMomentLocked();
      files.erase(name);
    }
  }
  return real_vfs->xDelete(real_vfs, name, sync);
}

sqlite3_vfs MakeVfs() {
  sqlite3_vfs* real = sqlite3_vfs_find(nullptr);
  sqlite3_vfs vfs = *real;  // everything except xOpen and xDelete only looks at names
  vfs.pNext = nullptr;
  vfs.zName = "foretrain-power";
  vfs.pAppData = real;
  vfs.szOsFile = static_cast<int>(sizeof(PowerFile)) + real->szOsFile;
  vfs.xOpen = Open;
  vfs.xDelete = Delete;
  return vfs;
}

UnsyncedCall WithNoise(const UnsyncedCall& call, std::mt19937_64& random) {
  if (call.bytes == nullptr) return call;
  std::string bytes = *call.bytes;
  for (std::size_t at = 0; at < bytes.size(); at += kSector) {
    if (random() % 3 != 0) continue;
    const std::size_t end = std::min(bytes.size(), at + kSector);
    std::generate(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                  bytes.begin() + static_cast<std::ptrdiff_t>(end),
                  [&random] { return static_cast<char>(random()); });
  }
  return {call.at, std::make_shared<const std::string>(std::move(bytes))};
}

std::string BytesAfter(const FileOnDisk& file, Unsynced fate, std::mt19937_64& random) {
  std::string bytes = *file.synced;
  if (fate == Unsynced::kLost) return bytes;
  for (const UnsyncedCall& call : file.unsynced) {
    if (random() % 2 == 0) continue;
    Apply(fate == Unsynced::kGarbage ? WithNoise(call, random) : call, bytes);
  }
  return bytes;
}

}  // namespace

const char* PowerVfs() {
  static sqlite3_vfs vfs = MakeVfs();
  static const int registered = sqlite3_vfs_register(&vfs, /*makeDflt=*/0);
  static_cast<void>(registered);
  return vfs.zName;
}

void RecordMoments(std::function<std::int64_t()> asked) {
  const std::lock_guard lock(mutex);
  promised = std::move(asked);
}

std::vector<DiskMoment> TakeMoments() {
  const std::lock_guard lock(mutex);
  promised = nullptr;
  files.clear();
  writes = 0;
  return std::exchange(moments, {});
}

void LosePower(const DiskMoment& moment, Unsynced fate, std::uint64_t seed, const std::string& path,
               const std::string& to) {
  std::mt19937_64 random(seed);
  for (const char* part : {"", "-wal", "-shm"}) {
    std::filesystem::remove(to + part);
    const auto at = moment.files.find(path + part);
    if (at == moment.files.end()) continue;
    const std::string bytes = BytesAfter(at->second, fate, random);
    std::ofstream(to + part, std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
}

}  // namespace foretrain
