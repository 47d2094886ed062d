//! Compute pipelines: made in parallel, shared between programs, cached in memory and on disk.

use std::collections::HashMap;
use std::io::Cursor;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use accel_kernels::PipelineSpec;
use ash::vk;

use crate::Error;
use crate::cache::{CacheFile, MAX_BYTES};
use crate::core::Core;
use crate::instance::lock;

/// Most threads that compile for one load.
const MAX_THREADS: usize = 8;

/// A pipeline.
pub(crate) struct Pipeline {
    core: Arc<Core>,
    pub(crate) handle: vk::Pipeline,
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        if !self.core.is_hung() {
            // SAFETY: idle: programs in flight hold their pipelines.
            unsafe { self.core.device.destroy_pipeline(self.handle, None) };
        }
    }
}

/// All pipelines of an engine.
pub(crate) struct Pipelines {
    core: Arc<Core>,
    /// One layout for every kernel: no descriptor sets, and all the push constants that there are.
    pub(crate) layout: vk::PipelineLayout,
    cache: RwLock<vk::PipelineCache>,
    file: Option<CacheFile>,
    // Weak: a pipeline lives as long as a program that uses it; the driver's cache remembers the code.
    known: Mutex<HashMap<PipelineSpec, Weak<Pipeline>>>,
}

impl Pipelines {
    pub(crate) fn new(core: &Arc<Core>, directory: Option<&Path>) -> Result<Self, Error> {
        let ranges = [vk::PushConstantRange::default()
            .stage_flags(vk::ShaderStageFlags::COMPUTE)
            .size(core.properties.caps.push_constant_bytes)];
        let info = vk::PipelineLayoutCreateInfo::default().push_constant_ranges(&ranges);
        // SAFETY: alive and well-formed; the range is the device's limit.
        let layout = unsafe { core.device.create_pipeline_layout(&info, None) }
            .map_err(Error::of("vkCreatePipelineLayout"))?;
        let mut pipelines = Self {
            core: Arc::clone(core),
            layout,
            cache: RwLock::new(vk::PipelineCache::null()),
            file: directory.map(|d| CacheFile::new(d, &core.properties)),
            known: Mutex::default(),
        };
        let saved = pipelines.file.as_ref().map(CacheFile::load).unwrap_or_default();
        let cache = create_cache(core, &saved)?;
        pipelines.cache = RwLock::new(cache);
        Ok(pipelines)
    }

    /// Gives the pipelines of `specs`, making those that nobody has.
    pub(crate) fn get(&self, specs: &[PipelineSpec]) -> Result<Vec<Arc<Pipeline>>, Error> {
        let mut found: Vec<_> = {
            let known = lock(&self.known);
            specs.iter().map(|spec| known.get(spec).and_then(Weak::upgrade)).collect()
        };
        let missing: Vec<usize> = (0..specs.len()).filter(|i| found[*i].is_none()).collect();
        if !missing.is_empty() {
            for (index, pipeline) in self.make(specs, &missing)? {
                found[index] = Some(pipeline);
            }
            let mut known = lock(&self.known);
            known.retain(|_, pipeline| pipeline.strong_count() > 0);
            for index in missing {
                if let Some(pipeline) = &found[index] {
                    known.insert(specs[index].clone(), Arc::downgrade(pipeline));
                }
            }
            drop(known);
            self.save();
        }
        Ok(found.into_iter().flatten().collect())
    }

    /// Compiles `specs[i]` for each `i` of `missing` on several threads.
    fn make(&self, specs: &[PipelineSpec], missing: &[usize]) -> Result<Vec<(usize, Arc<Pipeline>)>, Error> {
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let next = AtomicUsize::new(0);
        let made = Mutex::new(Vec::with_capacity(missing.len()));
        let work = || {
            while let Some(&index) = missing.get(next.fetch_add(1, Ordering::Relaxed)) {
                let result = self.compile(&specs[index]).map(|pipeline| (index, pipeline));
                if result.is_err() {
                    // The load fails: leave the rest.
                    next.store(missing.len(), Ordering::Relaxed);
                }
                lock(&made).push(result);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..missing.len().min(cores).min(MAX_THREADS) {
                // Without another thread this one does the work.
                let _ = std::thread::Builder::new().name("accel-compile".into()).spawn_scoped(scope, work);
            }
            work();
        });
        made.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().collect()
    }

    fn compile(&self, spec: &PipelineSpec) -> Result<Arc<Pipeline>, Error> {
        let device = &self.core.device;
        let name = spec.module.name;
        let code = ash::util::read_spv(&mut Cursor::new(spec.module.spirv))
            .map_err(|error| Error::Plan(format!("the module {name} is no SPIR-V: {error}")))?;
        let entries: Vec<_> = spec
            .constants
            .iter()
            .zip((0u32..).step_by(4))
            .map(|((id, _), offset)| vk::SpecializationMapEntry { constant_id: *id, offset, size: 4 })
            .collect();
        let data: Vec<u8> = spec.constants.iter().flat_map(|(_, value)| value.to_ne_bytes()).collect();
        let specialization = vk::SpecializationInfo::default().map_entries(&entries).data(&data);
        let info = vk::ShaderModuleCreateInfo::default().code(&code);
        // SAFETY: alive and well-formed; the code is ours and passed spirv-val.
        let module =
            unsafe { device.create_shader_module(&info, None) }.map_err(Error::of("vkCreateShaderModule"))?;
        let mut subgroup = vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo::default()
            .required_subgroup_size(self.core.properties.caps.subgroup_size);
        let mut stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(module)
            .name(c"main")
            .specialization_info(&specialization);
        if self.core.properties.subgroup_size_varies {
            stage = stage.push_next(&mut subgroup);
        }
        let info = vk::ComputePipelineCreateInfo::default().stage(stage).layout(self.layout);
        let cache = self.cache.read().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: alive and well-formed; the module is destroyed once, after its only use.
        let made = unsafe {
            let made = device.create_compute_pipelines(*cache, &[info], None);
            device.destroy_shader_module(module, None);
            made
        };
        match made.as_deref() {
            Ok([handle]) => Ok(Arc::new(Pipeline { core: Arc::clone(&self.core), handle: *handle })),
            Ok(_) => Err(Error::Plan(format!("the driver made no pipeline of {name}"))),
            Err((_, result)) => {
                log::error!("the driver refused the pipeline {name} with {:?}", spec.constants);
                Err(Error::of("vkCreateComputePipelines")(*result))
            }
        }
    }

    /// Writes the cache to disk, and starts it anew once it has outgrown its bound.
    fn save(&self) {
        let cache = self.cache.read().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: alive; the cache is swapped only under the write lock.
        let data = match unsafe { self.core.device.get_pipeline_cache_data(*cache) } {
            Ok(data) => data,
            Err(result) => return log::warn!("the driver gave no pipeline cache: {result}"),
        };
        drop(cache);
        if data.len() <= MAX_BYTES {
            if let Some(file) = &self.file {
                file.save(&data);
            }
            return;
        }
        log::info!("the pipeline cache has grown to {} bytes and starts anew", data.len());
        if let Ok(fresh) = create_cache(&self.core, &[]) {
            let old =
                std::mem::replace(&mut *self.cache.write().unwrap_or_else(PoisonError::into_inner), fresh);
            // SAFETY: nobody uses it: uses hold the read lock.
            unsafe { self.core.device.destroy_pipeline_cache(old, None) };
        }
    }
}

fn create_cache(core: &Core, data: &[u8]) -> Result<vk::PipelineCache, Error> {
    let info = vk::PipelineCacheCreateInfo::default().initial_data(data);
    // SAFETY: alive and well-formed; the data carries a checksum, and the driver checks that it is its own.
    unsafe { core.device.create_pipeline_cache(&info, None) }.map_err(Error::of("vkCreatePipelineCache"))
}

impl Drop for Pipelines {
    fn drop(&mut self) {
        if self.core.is_hung() {
            return;
        }
        let cache = *self.cache.get_mut().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: alive; programs hold the pipelines through an `Arc`, so nobody records with the layout.
        unsafe {
            self.core.device.destroy_pipeline_cache(cache, None);
            self.core.device.destroy_pipeline_layout(self.layout, None);
        }
    }
}
