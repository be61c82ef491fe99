#include "runtime/device/nvme_file.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/checked.h"
#include "base/units.h"

#if FORETRAIN_HAVE_URING
#include <liburing.h>
#endif

namespace foretrain {
namespace {

// O_DIRECT needs memory, offset and length aligned to the device's logical block, which has 512 or
// 4096 bytes.
constexpr std::int64_t kBlock = 4096;
constexpr std::int64_t kChunk = std::int64_t{1} << 20;  // size of a request
constexpr int kRequests = 8;                            // in flight at once

std::int64_t RoundUp(std::int64_t bytes) { return (bytes + kBlock - 1) / kBlock * kBlock; }

bool IsAligned(const void* at) { return reinterpret_cast<std::uintptr_t>(at) % kBlock == 0; }

std::string Text(int error) {
  std::array<char, 128> text{};
  return ::strerror_r(error, text.data(), text.size());
}

// Opens a file without a name, if the file system can; else creates one and removes its name.
// EOPNOTSUPP and EISDIR mean that the file system or the kernel lacks O_TMPFILE. EINVAL may come
// from O_DIRECT too: the second open then reports it again.
int OpenNameless(const std::string& folder, int flags) {
  const int file = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | flags, 0600);
  if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return file;
  std::string name = folder + "/foretrain-XXXXXX";
  const int named = ::mkostemp(name.data(), O_CLOEXEC | flags);
  if (named >= 0) ::unlink(name.c_str());
  return named;
}

}  // namespace

// A request in flight: `bytes` of the transfer, moved as whole blocks between the file and
// `buffer`. `buffer` is the caller's memory or the slot's own.
struct NvmeFile::Slot {
  std::unique_ptr<std::byte, void (*)(void*)> own{nullptr, &std::free};
  std::byte* buffer = nullptr;
  std::byte* at = nullptr;
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
  bool busy = false;

  // Whole blocks of aligned memory need no copy; other data goes through an own block, zero-padded.
  bool Begin(bool write, std::int64_t from, std::int64_t count, std::byte* memory, bool direct) {
    offset = from;
    bytes = count;
    at = memory;
    buffer = memory;
    if (direct && (!IsAligned(memory) || count % kBlock != 0)) {
      if (own == nullptr) {
        own.reset(static_cast<std::byte*>(std::aligned_alloc(kBlock, kChunk)));
        if (own == nullptr) return false;
      }
      buffer = own.get();
      if (write) {
        std::memcpy(buffer, at, static_cast<std::size_t>(bytes));
        std::memset(buffer + bytes, 0, static_cast<std::size_t>(Length(direct) - bytes));
      }
    }
    return true;
  }
  std::int64_t Length(bool direct) const { return direct ? RoundUp(bytes) : bytes; }
  void End(bool write) const {
    if (!write && buffer != at) std::memcpy(at, buffer, static_cast<std::size_t>(bytes));
  }
};

#if FORETRAIN_HAVE_URING
struct NvmeFile::Ring {
  io_uring ring{};
  bool made = false;

  Ring() { made = io_uring_queue_init(kRequests, &ring, 0) == 0; }
  ~Ring() {
    if (made) io_uring_queue_exit(&ring);
  }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
};

bool NvmeFile::Submit(Slot& slot, bool write) {
  io_uring_sqe* const request = io_uring_get_sqe(&ring_->ring);
  if (request == nullptr) return false;
  const auto length = static_cast<unsigned>(slot.Length(direct_));
  const auto offset = static_cast<std::uint64_t>(slot.offset);
  if (write) {
    io_uring_prep_write(request, file_, slot.buffer, length, offset);
  } else {
    io_uring_prep_read(request, file_, slot.buffer, length, offset);
  }
  io_uring_sqe_set_data(request, &slot);
  return io_uring_submit(&ring_->ring) == 1;
}

// `moved` is the number of bytes, or minus the error, as io_uring reports it.
NvmeFile::Slot* NvmeFile::WaitForOne(std::int64_t& moved) {
  io_uring_cqe* done = nullptr;
  int status = -EINTR;
  while (status == -EINTR) status = io_uring_wait_cqe(&ring_->ring, &done);
  FT_CHECK(status == 0);  // the ring exists and has requests in flight
  moved = done->res;
  auto* const slot = static_cast<Slot*>(io_uring_cqe_get_data(done));
  io_uring_cqe_seen(&ring_->ring, done);
  return slot;
}
#else
struct NvmeFile::Ring {
  static constexpr bool made = false;
};
bool NvmeFile::Submit(Slot& /*slot*/, bool /*write*/) { return false; }
NvmeFile::Slot* NvmeFile::WaitForOne(std::int64_t& /*moved*/) { return nullptr; }
#endif

NvmeFile::NvmeFile(int file, std::string folder, bool direct)
    : file_(file),
      folder_(std::move(folder)),
      direct_(direct),
      slots_(std::make_unique<Slot[]>(kRequests)) {}

// The ring goes first, since its requests use the file.
NvmeFile::~NvmeFile() {
  ring_.reset();
  ::close(file_);
}

// Direct access and io_uring are dropped where the system lacks them: the file works anyway, only
// slower. Containers often forbid io_uring.
Result<std::unique_ptr<NvmeFile>> NvmeFile::Make(std::int64_t bytes, const NvmeOptions& options) {
  bool direct = options.direct;
  int file = OpenNameless(options.folder, direct ? O_DIRECT : 0);
  if (file < 0 && direct && errno == EINVAL) {
    direct = false;
    file = OpenNameless(options.folder, 0);
  }
  if (file < 0) {
    return Fail(ErrorCode::kIo, "nvme: no file can be made in " + options.folder + ": " +
                                    Text(errno) + "; give another folder with --nvme");
  }
  std::unique_ptr<NvmeFile> nvme(new NvmeFile(file, options.folder, direct));
  FT_TRY(nvme->Reserve(RoundUp(std::max<std::int64_t>(bytes, 1))));
  nvme->DropDirectIfRefused();
  if (options.uring) {
    auto ring = std::make_unique<Ring>();
    if (ring->made) nvme->ring_ = std::move(ring);
  }
  return nvme;
}

// Checks the free space first: some systems fill the disk before they report an error.
Result<void> NvmeFile::Reserve(std::int64_t bytes) {
  struct statvfs disk {};
  std::string free;
  int error = 0;
  if (::fstatvfs(file_, &disk) == 0) {
    const auto free_bytes =
        CheckedMul("free bytes of a disk", static_cast<std::int64_t>(disk.f_bavail),
                   static_cast<std::int64_t>(disk.f_frsize));
    if (free_bytes.has_value()) {
      free = ", which has " + FormatBytes(*free_bytes) + " free";
      if (bytes > *free_bytes) error = ENOSPC;
    }
  }
  if (error == 0) error = ::posix_fallocate(file_, 0, bytes);
  if (error == 0) return {};
  return Fail(ErrorCode::kResourceExhausted, "nvme: " + FormatBytes(bytes) + " do not fit on " +
                                                 folder_ + free + ": " + Text(error) +
                                                 "; give another folder with --nvme");
}

// Some file systems accept O_DIRECT and then refuse transfers: one block is written as a test.
void NvmeFile::DropDirectIfRefused() {
  if (!direct_) return;
  Slot slot;
  std::byte none[1] = {};
  const bool works = slot.Begin(/*write=*/true, 0, 1, none, /*direct=*/true) &&
                     ::pwrite(file_, slot.buffer, static_cast<std::size_t>(kBlock), 0) == kBlock;
  if (works) return;
  direct_ = false;
  (void)::fcntl(file_, F_SETFL, ::fcntl(file_, F_GETFL) & ~O_DIRECT);
}

Error NvmeFile::Failed(bool write, std::int64_t offset, std::int64_t bytes, int error) const {
  return {ErrorCode::kIo, std::string("nvme: ") + (write ? "writing " : "reading ") +
                              FormatBytes(bytes) + " at byte " + std::to_string(offset) +
                              " of a file in " + folder_ + ": " +
                              (error == 0 ? "the file ends early" : Text(error))};
}

// pread and pwrite may move less than asked, so the rest is asked for again. 0 bytes: the file has
// ended.
Result<void> NvmeFile::MoveBlocking(bool write, std::int64_t offset, std::int64_t bytes,
                                    std::byte* at) {
  for (std::int64_t done = 0; done < bytes;) {
    const auto left = static_cast<std::size_t>(bytes - done);
    const ssize_t moved = write ? ::pwrite(file_, at + done, left, offset + done)
                                : ::pread(file_, at + done, left, offset + done);
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) {
      return tl::unexpected<Error>(Failed(write, offset, bytes, moved < 0 ? errno : 0));
    }
    done += moved;
  }
  return {};
}

// Finishes a request. Bytes that it did not move (all, if refused) are moved by blocking calls.
Result<void> NvmeFile::Complete(Slot& slot, bool write, std::int64_t moved) {
  slot.busy = false;
  const std::int64_t length = slot.Length(direct_);
  // Rounded down: direct access must continue at the start of a block.
  const std::int64_t done = std::max<std::int64_t>(moved, 0) / kBlock * kBlock;
  if (moved < length) {
    FT_TRY(MoveBlocking(write, slot.offset + done, length - done, slot.buffer + done));
  }
  slot.End(write);
  return {};
}

// Keeps up to kRequests requests in flight. After an error no new one is started, but those in
// flight are awaited, because they still access the caller's memory.
Result<void> NvmeFile::Move(bool write, std::int64_t offset, std::int64_t bytes, std::byte* at) {
  FT_CHECK(offset % kBlock == 0 && bytes >= 0);
  Result<void> end;
  std::int64_t begun = 0;
  int under_way = 0;
  while (begun < bytes || under_way > 0) {
    Slot* const slots = slots_.get();
    Slot* const idle =
        std::find_if(slots, slots + kRequests, [](const Slot& s) { return !s.busy; });
    if (begun < bytes && idle != slots + kRequests && end.has_value()) {
      // Whole blocks first, then the rest through a buffer.
      const std::int64_t left = bytes - begun;
      const std::int64_t count = std::min(kChunk, left >= kBlock ? left / kBlock * kBlock : left);
      if (!idle->Begin(write, offset + begun, count, at + begun, direct_)) {
        end = Fail(ErrorCode::kResourceExhausted, "nvme: out of host memory");
        continue;
      }
      begun += count;
      if (ring_ != nullptr && Submit(*idle, write)) {
        idle->busy = true;
        ++under_way;
      } else {
        end = Complete(*idle, write, 0);
      }
      continue;
    }
    if (under_way == 0) break;  // an error occurred
    std::int64_t moved = 0;
    Slot* const done = WaitForOne(moved);
    --under_way;
    const Result<void> completed = Complete(*done, write, moved);
    if (!completed.has_value() && end.has_value()) end = completed;
  }
  return end;
}

Result<void> NvmeFile::Read(std::int64_t offset, std::int64_t bytes, void* to) {
  return Move(false, offset, bytes, static_cast<std::byte*>(to));
}

Result<void> NvmeFile::Write(std::int64_t offset, std::int64_t bytes, const void* from) {
  // const_cast: the transfer only reads the memory.
  return Move(true, offset, bytes, static_cast<std::byte*>(const_cast<void*>(from)));
}

}  // namespace foretrain
