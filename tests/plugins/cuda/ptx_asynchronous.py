"""Translates instructions of compute capability 9.0 that work asynchronously: mbarriers, fences, bulk copies, products of
a warpgroup. ptx_to_cpp.py has the rest; asynchronous/ executes them."""
import re


class Asynchronous:
    """A part of the class Function, which has the operands."""

    @staticmethod
    def registers_with_sums(body):
        """Numbers of the registers that may hold sums of warpgroup products: their operands, and copies of them."""
        sums = {register.strip() for operands in re.findall(r'wgmma\.mma_async[^{;]*\{([^}]*)\}', body)
                for register in operands.split(',')}
        moves = re.findall(r'mov\.[bfu]32\s+(%\w+),\s*(%\w+);', body)
        while more := {to for to, source in moves if source in sums} - sums:
            sums |= more
        return {register: number for number, register in enumerate(sorted(sums))}

    def translate_mbarrier(self, opcode, parts, operands):
        address = self.address(operands[1 if parts[1] != 'init' else 0])
        if opcode == 'mbarrier.init.shared::cta.b64':
            return f'InitMbarrier(t, {address}, {self.value(operands[1], "u32")});'
        if opcode in ('mbarrier.arrive.shared::cta.b64', 'mbarrier.arrive.expect_tx.shared::cta.b64') and operands[0] == '_':
            bytes_ = self.value(operands[2], 'u32') if len(operands) > 2 else '0'
            return f'Arrive(t, {self.site("mbarrier.arrive")}, {address}, {bytes_});'
        if opcode == 'mbarrier.try_wait.parity.shared::cta.b64':
            wait = f'TryWait(t, {self.site("mbarrier.try_wait")}, {address}, {self.value(operands[2], "u32")})'
            return f'{self.name_of(operands[0])} = {wait};'
        return self.fail(f'"{opcode}"')

    def translate_fence(self, opcode, parts, operands):
        if opcode == 'fence.mbarrier_init.release.cluster':
            return f'FenceInit(t, {self.site("fence.mbarrier_init")});'
        if opcode in ('fence.proxy.async', 'fence.proxy.async.shared::cta'):
            return f'FenceAsync(t, {self.site("fence.proxy.async")});'
        return self.fail(f'"{opcode}"')

    def translate_setmaxnreg(self, opcode, parts, operands):
        return f'SetRegisters(t, {int(operands[0])});'

    def translate_wgmma(self, opcode, parts, operands):
        if opcode == 'wgmma.fence.sync.aligned':
            return f'WarpgroupFence(t, {self.site("wgmma.fence")});'
        if opcode == 'wgmma.commit_group.sync.aligned':
            return 'WarpgroupCommit(t);'
        if opcode == 'wgmma.wait_group.sync.aligned':
            return f'WarpgroupWait(t, {self.site("wgmma.wait_group")}, {int(operands[0])}, sums, {len(self.sums)});'
        shape = re.match(r'wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k16\.f32\.(f16|bf16)\.\2$', opcode)
        sums = self.inner(operands[0])
        if not shape or 2 * len(sums) != int(shape[1]) or operands[4:6] != ['1', '1']:
            return self.fail(f'"{opcode}" with these operands')
        in_registers = operands[1].startswith('{')
        transposed = (['0'] if in_registers else []) + operands[6:]
        a = [self.value(register, 'b32') for register in self.inner(operands[1])] if in_registers else []
        descriptors = ['0' if in_registers else self.value(operands[1], 'b64'), self.value(operands[2], 'b64')]
        flags = [str(x).lower() for x in (shape[2] == 'bf16', in_registers, transposed[0] == '1', transposed[1] == '1')]
        product = ', '.join([shape[1], *flags, self.value(operands[3], 'pred'), f'{{{", ".join(a)}}}', *descriptors])
        numbers = ', '.join(str(self.sums[register]) for register in sums)
        return (f'static constexpr std::uint16_t numbers[] = {{{numbers}}}; WarpgroupMultiply(t, '
                f'{self.site("wgmma.mma_async")}, {{{product}}}, sums, numbers);')

    def copy_bulk(self, opcode, operands):
        rank = re.match(r'cp\.async\.bulk\.tensor\.([23])d\.shared::cluster\.global\.mbarrier::complete_tx::bytes$', opcode)
        if not rank:
            return self.fail(f'"{opcode}"')
        address, at = self.inner(operands[1])
        places = ', '.join(self.value(place, 's32') for place in self.inner(at))
        return (f'CopyBulk<{rank[1]}>(t, {self.site("cp.async.bulk")}, {self.address(operands[0])}, '
                f'{self.address(address)}, {{{places}}}, {self.address(operands[2])});')
