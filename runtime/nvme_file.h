// The part of a disk that one rank keeps tensors on: a file without a name, read and written past
// the page cache where the file system allows it. Leaves out which bytes lie where: the linked
// program says.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"

namespace foretrain {

struct NvmeOptions {
  std::string folder = "/tmp";  // on the disk to use
  bool direct = true;           // past the page cache (O_DIRECT), where the file system can
  bool uring = true;            // several requests at once (io_uring), where the kernel can
};

// Ranges begin at multiples of 4096 and own the bytes up to the next one behind their end, which
// a transfer may touch: disks know whole blocks alone.
class NvmeFile {
 public:
  // A file of `bytes` zeros, with all of its blocks reserved. It has no name in the folder: however
  // the process ends, nothing is left behind.
  //
  // Errors: kResourceExhausted, the disk is too full; kIo, the folder cannot be used.
  static Result<std::unique_ptr<NvmeFile>> Make(std::int64_t bytes, const NvmeOptions& options);
  ~NvmeFile();
  NvmeFile(const NvmeFile&) = delete;
  NvmeFile& operator=(const NvmeFile&) = delete;

  // Both return when all bytes have been moved. Memory aligned to 4096 is moved without a copy in
  // between. Errors: kIo, with the system's text. One thread at a time.
  Result<void> Read(std::int64_t offset, std::int64_t bytes, void* to);
  Result<void> Write(std::int64_t offset, std::int64_t bytes, const void* from);

  bool direct() const { return direct_; }
  bool uring() const { return ring_ != nullptr; }

 private:
  struct Ring;
  struct Slot;

  NvmeFile(int file, std::string folder, bool direct);
  Result<void> Reserve(std::int64_t bytes);
  void DropDirectIfRefused();
  Result<void> Move(bool write, std::int64_t offset, std::int64_t bytes, std::byte* at);
  Result<void> MoveBlocking(bool write, std::int64_t offset, std::int64_t bytes, std::byte* at);
  Error Failed(bool write, std::int64_t offset, std::int64_t bytes, int error) const;
  bool Submit(Slot& slot, bool write);
  Result<void> Complete(Slot& slot, bool write, std::int64_t moved);
  Slot* WaitForOne(std::int64_t& moved);

  int file_;
  std::string folder_;
  bool direct_;
  std::unique_ptr<Ring> ring_;
  std::unique_ptr<Slot[]> slots_;  // requests under way
};

}  // namespace foretrain
