// An SQLite VFS that fails the n-th write, sync or truncation, once or from then on.
#pragma once

namespace foretrain {

enum class FaultKind { kFull, kIo };

// The name under which the VFS is registered, at the first call.
const char* FaultVfs();

// Lets call number `call` (from 0, counted from now) fail; `sticky`: and all after it.
void ArmFault(int call, bool sticky, FaultKind kind);

// Lets nothing fail any more. True: something had.
bool DisarmFault();

}  // namespace foretrain
